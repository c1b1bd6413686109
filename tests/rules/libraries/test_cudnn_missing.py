# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: cannot"
            " open shared object file: No such file or directory",
        ),
        (
            "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic"
            " library 'cudnn64_8.dll'; dlerror: cudnn64_8.dll not found",
        ),
        ("UnimplementedError: DNN library is not found.\n[[node conv2d/Conv2D]]",),
        ("Could not locate zlibwapi.dll. Please make sure it is in your library path!",),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["cudnn-missing"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.1.0.  CuDNN library"
            " needs to have matching major version and equal or higher minor version.",
        ),
        ("ImportError: libcublas.so.11: cannot open shared object file: No such file or directory",),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "cudnn-missing" not in slugs(*texts)


LOAD = "2021-12-14 11:35:53: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library '{lib}'; dlerror: {lib}: cannot open shared object file: No such file or directory\n"


def test_tensorflow_that_only_came_along_where_pytorch_ended_the_run() -> None:
    text = LOAD.format(lib="libcudnn.so.8")
    assert not slugs(text + "RuntimeError: stack expects each tensor to be equal size, but got [994, 295, 2] at entry 0 and [994, 803, 2] at entry 1")
    assert slugs(text + "ValueError: Unknown layer: Conv")[0] == "cudnn-missing"
