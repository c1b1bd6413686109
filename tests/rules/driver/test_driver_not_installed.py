import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "$ nvidia-smi\n"
        "bash: nvidia-smi: command not found\n"
        "$ lspci | grep -i nvidia\n"
        "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)",
        "$ nvidia-smi\n"
        "zsh: command not found: nvidia-smi\n"
        "\n"
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU "
        "and installed a driver from http://www.nvidia.com/Download/index.aspx",
        "$ nvidia-smi\n"
        "\n"
        "Command 'nvidia-smi' not found, but can be installed with:\n"
        "\n"
        "sudo apt install nvidia-utils-470",
        "$ dpkg -l | grep -i nvidia\n"
        "$ lspci -nnk -d 10de:\n"
        "01:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 PCIe 40GB] [10de:20f1] (rev a1)\n"
        "$ nvidia-smi\n"
        "bash: nvidia-smi: command not found",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["driver-not-installed"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
        "OSError: libcublas.so.11: cannot open shared object file: No such file or directory\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "macOS 14, Apple M2\nRuntimeError: Found no NVIDIA driver on your system.",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "driver-not-installed" not in slugs(text)


def test_nvidia_docker_1_finds_no_nvml() -> None:
    assert slugs("nvidia-docker | 2016/11/14 15:36:53 Error: Could not load NVML library")[:1] == ["driver-not-installed"]
