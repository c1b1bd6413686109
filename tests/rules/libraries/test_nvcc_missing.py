import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        ("/bin/sh: 1: nvcc: not found\nninja: build stopped: subcommand failed.",),
        (
            "CMake Error: Failed to find nvcc.\n"
            "Compiler requires the CUDA toolkit.  Please set the CUDAToolkit_ROOT variable.",
        ),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'",),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["nvcc-missing"]


@pytest.mark.parametrize(
    "texts",
    [
        ("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",),
        (
            "RuntimeError: \n"
            "The detected CUDA version (12.1) mismatches the version that was used to compile\n"
            "PyTorch (11.8). Please make sure to use the same CUDA versions.",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "nvcc-missing" not in slugs(*texts)
