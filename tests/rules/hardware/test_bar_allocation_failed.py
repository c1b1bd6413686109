import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
        "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:14:00.0)",
        "pci 0000:01:00.0: BAR 1 [mem size 0x10000000 64bit pref]: can't assign; no space",
        "pci 0000:41:00.0: BAR 1: no space for [mem size 0x1000000000 64bit pref]",
        "Device Manager: This device cannot find enough free resources that it can use. (Code 12)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["bar-allocation-failed"]


@pytest.mark.parametrize(
    "text",
    [
        "pci 0000:01:00.0: BAR 1: assigned [mem 0xe0000000-0xefffffff 64bit pref]",
        "Windows has stopped this device (Code 43)",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "bar-allocation-failed" not in slugs(text)
