import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: The NVIDIA GPU 0000:03:00.0 (PCI ID: 10de:1b06)\n"
        "NVRM: installed in this system is not supported by open\n"
        "NVRM: nvidia.ko because it does not include the required GPU\n"
        "NVRM: System Processor (GSP).",
        "$ lspci -nn | grep -i nvidia\n"
        "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GP102 [GeForce GTX 1080 Ti] "
        "[10de:1b06] (rev a1)\n"
        "$ modinfo -F license nvidia\n"
        "Dual MIT/GPL\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["open-kernel-module-unsupported-gpu"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "$ modinfo -F license nvidia\n"
        "Dual MIT/GPL\n"
        "NVIDIA GeForce RTX 3090\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "open-kernel-module-unsupported-gpu" not in slugs(text)
