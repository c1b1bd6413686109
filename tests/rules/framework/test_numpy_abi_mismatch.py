import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96"
            " from C header, got 88 from PyObject",
        ),
        (
            "UserWarning: Failed to initialize NumPy: _ARRAY_API not found (Triggered internally at"
            " ../torch/csrc/utils/tensor_numpy.cpp:84.)",
        ),
        ("A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.0.0 as it may crash.",),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["numpy-abi-mismatch"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA"
            " major versions. PyTorch has CUDA Version=12.1 and torchvision has CUDA Version=11.8."
            " Please reinstall the torchvision that matches your PyTorch install.",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "numpy-abi-mismatch" not in slugs(*texts)


def test_the_version_of_the_warnings_second_line() -> None:
    text = "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.1.3 as it may crash. To support both 1.x and 2.x"
    told = explain(text).findings[0]
    assert (told.slug, told.values["numpy"]) == ("numpy-abi-mismatch", "2.1.3")
