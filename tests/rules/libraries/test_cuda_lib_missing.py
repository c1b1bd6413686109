# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "texts",
    [
        ("ImportError: libcublas.so.11: cannot open shared object file: No such file or directory",),
        ("RuntimeError: Library cublas64_12.dll is not found or cannot be loaded",),
        (
            "2021-03-01 W tensorflow/stream_executor/platform/default/dso_loader.cc:60] Could not load"
            " dynamic library 'libcusolver.so.10'; dlerror: libcusolver.so.10: cannot open shared"
            " object file: No such file or directory; LD_LIBRARY_PATH: /usr/local/cuda-11.1/lib64\n"
            "Skipping registering GPU devices...\n"
            "tensorflow 2.4.1",
        ),
        (
            "nvrtc: error: failed to open libnvrtc-builtins.so.12.1.\n"
            "  Make sure that libnvrtc-builtins.so.12.1 is installed correctly.",
        ),
        (
            "numba.cuda.cudadrv.error.NvvmSupportError: libNVVM cannot be found. Do `conda install"
            " cudatoolkit`:\n"
            "library nvvm not found",
        ),
        (
            "OSError: libcusparse.so.11: cannot open shared object file: No such file or directory\n"
            '  File "torch_sparse/__init__.py"',
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["cuda-lib-missing"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: cannot"
            " open shared object file: No such file or directory",
        ),
        (
            "Windows 11, Python 3.10, tensorflow 2.15.0, CUDA 11.8, RTX 3060\n"
            "print(tf.config.list_physical_devices('GPU')) returns []",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "cuda-lib-missing" not in slugs(*texts)


def test_ollamas_driver_library_is_no_cuda_library() -> None:
    text = 'level=INFO msg="unable to load cuda driver library" library=/usr/lib/libcuda.so.550.54 error="cuda driver library init failure: 999"'
    assert "cuda-lib-missing" not in slugs(text)


LOAD = "2021-12-14 11:35:53: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library '{lib}'; dlerror: {lib}: cannot open shared object file: No such file or directory\n"


def test_tensorflow_that_only_came_along_where_pytorch_ended_the_run() -> None:
    text = LOAD.format(lib="libcudart.so.11.0")
    assert not slugs(text + "RuntimeError: stack expects each tensor to be equal size, but got [994, 295, 2] at entry 0 and [994, 803, 2] at entry 1")
    assert slugs(text + "ValueError: Unknown layer: Conv")[0] == "cuda-lib-missing"


def test_the_toolkits_that_a_listing_shows_are_quoted() -> None:
    text = "ImportError: libcublas.so.9.1: cannot open shared object file: No such file or directory\n$ ls -d /usr/local/cuda*\n/usr/local/cuda\n/usr/local/cuda-9.0"
    first = explain(text).findings[0]
    assert first.slug == "cuda-lib-missing"
    assert any("cuda-9.0" in ref.quote for ref in first.refs)
