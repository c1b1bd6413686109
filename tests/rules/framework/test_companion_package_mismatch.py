# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


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


def test_torchvisions_operator_cannot_be_found() -> None:
    assert slugs("Could not find the operator torchvision::nms. Please make sure you have already registered the operator")[:1] == ["companion-package-mismatch"]


def test_an_undefined_symbol_that_is_not_named() -> None:
    assert slugs("importerror: /flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol") == ["companion-package-mismatch"]
    assert "companion-package-mismatch" not in slugs("importerror: /opt/mine/parser.cpython-310-x86_64-linux-gnu.so: undefined symbol")


def test_what_each_kernel_of_xformers_would_need_is_not_the_cause() -> None:
    listed = "`fa3F@0.0.0` is not supported because:\n    xFormers wasn't build with CUDA support\n    requires device with capability > (9, 0) but your GPU has capability (8, 6) (too old)"
    assert slugs(listed) == ["companion-package-mismatch"]


@pytest.mark.parametrize(
    ("listed", "name", "variant"),
    [
        (("torch 2.5.1+cu121", "xformers 0.0.27"), "xformers", "versions"),
        (("torch 2.5.1", "nvidia-cudnn-cu12 8.9.2.26"), "nvidia-cudnn-cu12", "pinned"),
        (("torch 2.5.1", "triton 2.0.0"), "triton", "pinned"),
        (("jax 0.5.0", "jaxlib 0.4.30"), "", "jax"),
        (("torch 2.5.1", "xformers 0.0.28.post3", "nvidia-cudnn-cu12 9.1.0.70", "triton 3.1.0"), "", None),
        (("torch 2.5.1", "nvidia-cudnn-cu12 9.5.1.17"), "", None),
        (("torch 2.10.0", "xformers 0.0.34"), "", None),
        (("jax 0.5.0", "jaxlib 0.5.0"), "", None),
        (("torch 2.5.1+cpu", "nvidia-cudnn-cu12 8.9.2.26"), "", None),
    ],
)
def test_lists_whose_packages_do_not_fit(listed: tuple[str, ...], name: str, variant: str | None) -> None:
    rows = [one.split() for one in ("Package Version", "-------------------- ------------", *sorted((*listed, "numpy 1.26.4")))]
    text = "$ pip list\n" + "".join(f"{package:20} {version}\n" for package, version in rows)
    found = [f for f in explain(text).findings if f.slug == "companion-package-mismatch"]
    assert [(f.values.get("name", ""), f.variant) for f in found] == ([(name, variant)] if variant else [])


def test_a_version_that_a_sentence_names_is_not_installed() -> None:
    assert "companion-package-mismatch" not in slugs("torch version: 2.1.2+cu121", "[WARNING] please install triton==1.0.0 if you want to use sparse attention")
