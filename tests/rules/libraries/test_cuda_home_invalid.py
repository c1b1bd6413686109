import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "$ echo $CUDA_HOME\n/usr/local/cuda-11.7/bin",
            "error: [Errno 2] No such file or directory: '/usr/local/cuda-11.7/bin/bin/nvcc'",
        ),
        (
            "export CUDA_HOME=$CUDA_HOME:/usr/local/cuda-10.1\n"
            "FileNotFoundError: [Errno 2] No such file or directory: ':/usr/local/cuda-10.1/bin/nvcc'",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["cuda-home-invalid"]


@pytest.mark.parametrize(
    "texts",
    [
        ("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",),
        ("/bin/sh: 1: nvcc: not found\nninja: build stopped: subcommand failed.",),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "cuda-home-invalid" not in slugs(*texts)
