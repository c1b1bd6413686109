import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            'RuntimeError: !handles_.at(i) INTERNAL ASSERT FAILED at "../c10/cuda/driver_api.cpp":11,'
            " please report a bug to PyTorch.",
        ),
        (
            "RuntimeError: cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support"
            " the graph.\n"
            "torch 2.5.0+cu124",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["framework-kernel-bug"]


@pytest.mark.parametrize(
    "texts",
    [
        ("error in ms_deformable_im2col_cuda: no kernel image is available for execution on the device",),
        (
            "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA"
            " major versions. PyTorch has CUDA Version=12.1 and torchvision has CUDA Version=11.8."
            " Please reinstall the torchvision that matches your PyTorch install.",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "framework-kernel-bug" not in slugs(*texts)
