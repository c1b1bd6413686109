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
