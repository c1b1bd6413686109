import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "ImportError: /x/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12: undefined symbol:"
            " __nvJitLinkAddData_12_1, version libnvJitLink.so.12",
        ),
        (
            "$ ldd .venv/lib/python3.12/site-packages/nvidia/cusparse/lib/libcusparse.so.12\n"
            "    libnvJitLink.so.12 => /usr/local/cuda-12.1/lib64/libnvJitLink.so.12"
            " (0x000070ddad800000)",
            "$ echo $LD_LIBRARY_PATH\n/usr/local/cuda-12.1/lib64:",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["nvjitlink-symbol-mismatch"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA"
            " major versions. PyTorch has CUDA Version=12.1 and torchvision has CUDA Version=11.8."
            " Please reinstall the torchvision that matches your PyTorch install.",
        ),
        (
            "ImportError: /opt/conda/lib/libcublas.so.11: undefined symbol: cublasLtGetStatusString,"
            " version libcublasLt.so.11\n"
            "$ echo $LD_LIBRARY_PATH\n"
            "/usr/local/cuda-11.2/lib64",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "nvjitlink-symbol-mismatch" not in slugs(*texts)
