# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA"
            " major versions. PyTorch has CUDA Version=12.1 and torchvision has CUDA Version=11.8."
            " Please reinstall the torchvision that matches your PyTorch install.",
        ),
        (
            "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:\n"
            "    PyTorch 2.0.1+cu118 with CUDA 1108 (you have 2.1.0+cu121)\n"
            "    Python  3.10.11 (you have 3.10.6)",
        ),
        (
            "ImportError: /env/lib/python3.9/site-packages/torch_scatter/_version_cuda.so: undefined"
            " symbol: _ZN3c1017RegisterOperatorsD1Ev",
        ),
        (
            "OSError: libtorch_cuda_cu.so: cannot open shared object file: No such file or directory\n"
            "import torch_sparse",
        ),
        (
            "RuntimeError: Couldn't load custom C++ ops. This can happen if your PyTorch and"
            " torchvision versions are incompatible, or if you had errors while compiling torchvision"
            " from source.",
        ),
        (
            "torch==2.1.0+cu121\n"
            "torchvision==0.15.2+cu118\n"
            "NotImplementedError: Could not run 'torchvision::nms' with arguments from the 'CUDA'"
            " backend.",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["companion-package-mismatch"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "ImportError: /x/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12: undefined symbol:"
            " __nvJitLinkAddData_12_1, version libnvJitLink.so.12",
        ),
        ("ImportError: libcublas.so.11: cannot open shared object file: No such file or directory",),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "companion-package-mismatch" not in slugs(*texts)


def test_a_procedure_that_windows_does_not_find_in_a_companion() -> None:
    text = 'OSError: [WinError 127] The specified procedure could not be found. Error loading "C:\\Python310\\Lib\\site-packages\\{}\\x.pyd" or one of its dependencies.'
    assert slugs(text.format("torch_sparse"))[:1] == ["companion-package-mismatch"]
    assert "companion-package-mismatch" not in slugs(text.format("shapely"))
