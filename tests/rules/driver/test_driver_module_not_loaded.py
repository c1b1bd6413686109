import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.\n"
        "$ lsmod | grep nvidia\n"
        "$ dpkg -l | grep nvidia-driver\n"
        "ii  nvidia-driver-535  535.183.01-0ubuntu0.22.04.1 amd64 NVIDIA driver metapackage",
        "modprobe: FATAL: Module nvidia not found in directory /lib/modules/5.15.0-113-generic",
        "kernel driver does not appear to be running on this host (gpu01): /proc/driver/nvidia/version "
        "does not exist\n"
        "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
        "nvidia: version magic '5.15.0-91-generic SMP mod_unload ' should be '5.15.0-101-generic SMP "
        "mod_unload '",
        "$ grep -rn nvidia /etc/modprobe.d\n"
        "/etc/modprobe.d/blacklist-nvidia.conf:1:blacklist nvidia\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["driver-module-not-loaded"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "$ lsmod | grep nvidia\n"
        "nvidia_uvm 1384448 0\n"
        "nvidia 56717312 1 nvidia_uvm\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "$ nvidia-smi\nbash: nvidia-smi: command not found",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "driver-module-not-loaded" not in slugs(text)
