# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.\n"
            "Driver Version: 470.57.02",
        ),
        (
            "ptxas application ptx input, line 9; fatal   : Unsupported .version 8.5; current version"
            " is '8.4'\n"
            "Nvidia Driver: 550.54.15",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["ptx-too-new"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "Error 804: forward compatibility was attempted on non supported HW\n"
            "GeForce RTX 2080 Ti, nvcr.io/nvidia/pytorch:21.03-py3, driver 450.80",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "ptx-too-new" not in slugs(*texts)


def test_versions_in_the_form_of_requirements_are_read() -> None:
    text = "CUDA error 222 at ggml-cuda.cu:420: the provided PTX was compiled with an unsupported toolchain.\nnvcc==cuda_11.8.r11.8/compiler.31833905_0\nDriver==515.86.01"
    values = explain(text).findings[0].values
    assert (values["driver"], values["writes"], values["reads"]) == ("515.86.01", "11.8", "11.7")
