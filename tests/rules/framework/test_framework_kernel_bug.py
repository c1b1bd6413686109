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


def test_one_release_works_and_the_next_does_not() -> None:
    fails = "CUBLAS failure 1: invalid argument ; expr=cublasSetStream(cublas_handle_, stream);"
    assert slugs(fails, "ORT 1.16.1, CUDA provider; the same model on ORT 1.16.0 works") == ["framework-kernel-bug"]
    assert slugs("torch 2.1.0\nwith driver 535.54 works, with driver 470 it says the driver is too old") == ["driver-too-old-for-cuda"]
    assert "framework-kernel-bug" not in slugs("ModuleNotFoundError: No module named foo\nwith python 3.10 works")
