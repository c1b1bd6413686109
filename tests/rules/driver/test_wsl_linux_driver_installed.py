import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "$ uname -r\n"
        "5.15.153.1-microsoft-standard-WSL2\n"
        "$ dpkg -l | grep nvidia\n"
        "ii  nvidia-driver-535  535.183.01-0ubuntu0 amd64 x\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
        "WSL2 Ubuntu 22.04\n"
        "$ sudo apt install -y cuda\n"
        "$ nvidia-smi\n"
        "Failed to initialize NVML: GPU access blocked by the operating system",
        "WSL 2\n"
        "libcuda.so.1 => /usr/lib/x86_64-linux-gnu/libcuda.so.1\n"
        "RuntimeError: No CUDA GPUs are available",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["wsl-linux-driver-installed"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "WSL2\n"
        "$ sudo apt-get install cuda-toolkit-12-4\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "wsl-linux-driver-installed" not in slugs(text)
