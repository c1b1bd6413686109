import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: The NVIDIA driver on your system is too old (found version 10010). Please update "
        "your GPU driver",
        "CUDA driver version is insufficient for CUDA runtime version",
        "PyTorch version: 2.1.0+cu121\n"
        "Is debug build: False\n"
        "CUDA used to build PyTorch: 12.1\n"
        "Is CUDA available: False\n"
        "Nvidia driver version: 470.82.01",
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInsufficientDriver: CUDA driver "
        "version is insufficient for CUDA runtime version",
        "Please NOTE: device: 0, GPU Compute Capability: 7.5, Driver API Version: 10.1, Runtime API "
        "Version: 10.2",
        "NCCL WARN Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'",
        "cudaGetDeviceCount returned 35\n"
        "-> CUDA driver version is insufficient for CUDA runtime version\n"
        "Result = FAIL",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["driver-too-old-for-cuda"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "PyTorch version: 2.1.0+cu121\n"
        "CUDA used to build PyTorch: 12.1\n"
        "Is CUDA available: True\n"
        "Nvidia driver version: 525.85.12",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 0)\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "driver-too-old-for-cuda" not in slugs(text)
