"""PCI device ids."""

from pathlib import Path

import pytest

from ongpu.knowledge import pci


@pytest.mark.parametrize(
    ("device_id", "chip", "capability"),
    [
        ("2684", "AD102", "8.9"),
        ("10de:2684", "AD102", "8.9"),
        ("0x20B0", "GA100", "8.0"),
        ("0x2B8510DE", "GB202", "12.0"),
        ("1eb8", "TU104", "7.5"),
        ("2901", "GB100", "10.0"),
        ("10f0", None, None),  # the audio function of a GP104
        ("ffff", None, None),
        ("", None, None),
        ("2684 and more", None, None),
    ],
)
def test_chip_and_architecture(device_id: str, chip: str | None, capability: str | None) -> None:
    found = pci.architecture_of_device_id(device_id)
    assert pci.chip_of_device_id(device_id) == chip
    assert (found.capability if found else None) == capability


def test_pci_names_reads_nvidias_part(tmp_path: Path) -> None:
    path = tmp_path / "pci.ids"
    nvidia = "10de  NVIDIA Corporation\n\t2684  AD102 [GeForce RTX 4090]\n\t\t1043 1  sub\n"
    path.write_text(f"# list\n10dd  Other\n\t2684  no\n{nvidia}10df  Emulex\n\t1  x\n")
    assert dict(pci.pci_names(path)) == {"2684": "AD102 [GeForce RTX 4090]"}


def test_pci_names_without_a_file(tmp_path: Path) -> None:
    assert dict(pci.pci_names(tmp_path / "none")) == {}
