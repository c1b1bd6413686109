import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "Error 804: forward compatibility was attempted on non supported HW\n"
            "GeForce RTX 2080 Ti, nvcr.io/nvidia/pytorch:21.03-py3, driver 450.80",
        ),
        (
            "RuntimeError: CUDA error: system has unsupported display driver / cuda driver combination\n"
            "LD_LIBRARY_PATH=/usr/local/cuda/compat/lib:/usr/local/cuda/lib64",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["compat-lib-conflict"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.\n"
            "Driver Version: 470.57.02",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "compat-lib-conflict" not in slugs(*texts)
