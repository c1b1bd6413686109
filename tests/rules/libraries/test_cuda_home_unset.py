import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        ("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",),
        ('raise MissingCUDAException("CUDA_HOME does not exist, unable to compile CUDA op(s)")',),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["cuda-home-unset"]


@pytest.mark.parametrize(
    "texts",
    [
        ("/bin/sh: 1: nvcc: not found\nninja: build stopped: subcommand failed.",),
        (
            "$ echo $CUDA_HOME\n/usr/local/cuda-11.7/bin",
            "error: [Errno 2] No such file or directory: '/usr/local/cuda-11.7/bin/bin/nvcc'",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "cuda-home-unset" not in slugs(*texts)
