import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)\n"
        "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
        "$ lspci -nn | grep -i nvidia\n"
        "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GB202 [GeForce RTX 5090] "
        "[10de:2b85] (rev a1)\n"
        "$ nvidia-smi\n"
        "No devices were found\n"
        "$ modinfo -F license nvidia\n"
        "NVIDIA",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["open-kernel-module-required"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0xffff:1290)\n"
        "NVIDIA GeForce RTX 3090\n"
        "$ nvidia-smi\n"
        "No devices were found",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "open-kernel-module-required" not in slugs(text)
