# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs

from ongpu.model import Severity


@pytest.mark.parametrize(
    "text",
    [
        "$ lspci -nnk -d 10de:\n"
        "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation TU104 [GeForce RTX 2080] "
        "[10de:1e87] (rev a1)\n"
        "\tKernel driver in use: nouveau\n"
        "\tKernel modules: nvidiafb, nouveau",
        "$ lsmod | grep -E 'nouveau|nvidia'\n"
        "nouveau              2367488  4\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
        "ERROR: The Nouveau kernel driver is currently in use by your system.  This driver is "
        "incompatible with the NVIDIA driver",
        "NVRM: The NVIDIA probe routine was not called for 1 device(s).\n"
        "NVRM: This can occur when a driver such as:\n"
        "NVRM: nouveau, rivafb, nvidiafb or rivatv\n"
        "NVRM: was loaded and obtained ownership of the NVIDIA device(s).",
        "[    2.345678] nouveau 0000:01:00.0: NVIDIA GA106 (176000a1)\n"
        "[   12.1] NVRM: No NVIDIA devices probed.\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["nouveau-conflict"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation TU104 [10de:1e87]\n"
        "\tKernel driver in use: nvidia\n"
        "\tKernel modules: nvidiafb, nouveau, nvidia_drm, nvidia",
        "$ cat /etc/modprobe.d/blacklist-nouveau.conf\n"
        "blacklist nouveau\n"
        "options nouveau modeset=0\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "nouveau-conflict" not in slugs(text)


def test_what_failed_because_of_it_is_shown() -> None:
    first = explain("bash: nvidia-smi: command not found", "$ lspci -k\n01:00.0 VGA compatible controller: NVIDIA Corporation GP104 [GeForce GTX 1080]\n\tKernel driver in use: nouveau").findings[0]
    assert first.slug == "nouveau-conflict"
    assert any("nvidia-smi" in ref.quote for ref in first.refs)


def test_the_successor_of_nouveau() -> None:
    told = explain("NVRM: GPU 0000:01:00.0 is already bound to NovaCore.\nNVRM: No NVIDIA devices probed.").findings
    assert [(f.slug, f.variant) for f in told if f.weight > Severity.NOTE] == [("nouveau-conflict", "nova")]
    assert slugs("the nova_core driver was merged into Linux 6.15") == []
