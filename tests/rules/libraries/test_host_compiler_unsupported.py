import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "/usr/include/crt/host_config.h:138:2: error: #error -- unsupported GNU version! gcc"
            " versions later than 8 are not supported!",
        ),
        (
            "fatal error C1189: #error:  -- unsupported Microsoft Visual Studio version! Only the"
            " versions between 2017 and 2022 (inclusive) are supported!",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["host-compiler-unsupported"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "RuntimeError: \n"
            "The detected CUDA version (12.1) mismatches the version that was used to compile\n"
            "PyTorch (11.8). Please make sure to use the same CUDA versions.",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "host-compiler-unsupported" not in slugs(*texts)
