import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "nvidia-cublas-cu11==11.11.3.6\n"
            "nvidia-cublas-cu12==12.1.3.1\n"
            "torch==2.1.0\n"
            "ImportError: libcudnn.so.8: undefined symbol: cublasLtHSHMatmul",
        ),
        (
            "[pip3] nvidia-nccl-cu12==2.29.3\n"
            "[pip3] nvidia-nccl-cu13==2.29.7\n"
            "ImportError: libtorch_cuda.so: undefined symbol: ncclCommResume",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["mixed-cuda-wheels"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA"
            " major versions. PyTorch has CUDA Version=12.1 and torchvision has CUDA Version=11.8."
            " Please reinstall the torchvision that matches your PyTorch install.",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "mixed-cuda-wheels" not in slugs(*texts)
