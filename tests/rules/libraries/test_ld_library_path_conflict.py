import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "ImportError: /opt/conda/lib/libcublas.so.11: undefined symbol: cublasLtGetStatusString,"
            " version libcublasLt.so.11\n"
            "$ echo $LD_LIBRARY_PATH\n"
            "/usr/local/cuda-11.2/lib64",
        ),
        (
            "python: relocation error: /usr/local/cuda-11.1/lib64/libcublas.so: symbol"
            " runGemmShortApi, version libcublasLt.so.11 not defined in file libcublasLt.so.11 with"
            " link time reference",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["ld-library-path-conflict"]


@pytest.mark.parametrize(
    "texts",
    [
        ("ImportError: libcublas.so.11: cannot open shared object file: No such file or directory",),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "ld-library-path-conflict" not in slugs(*texts)


def test_a_library_of_the_systems_cuda_without_the_symbol() -> None:
    error = "ImportError: {}/libcudart.so.13: undefined symbol: __cudaInitModule13"
    path = "LD_LIBRARY_PATH=/usr/local/cuda-13/lib64"
    assert slugs(error.format("/usr/local/cuda-13/lib64"), path)[0] == "ld-library-path-conflict"
    assert "ld-library-path-conflict" not in slugs(error.format("/usr/local/cuda-13/lib64"))
    assert "ld-library-path-conflict" not in slugs("ImportError: /home/u/build/_C.so: undefined symbol: _ZN3c105ErrorC2E", path)
