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
