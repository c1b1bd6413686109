import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: GPU 0000:01:00.0: GPU does not have the necessary power cables connected.",
        "NVRM: Xid (PCI:0000:01:00): 54, Power connector",
        "Please power down and connect the PCIe power cable(s) for this graphics card",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["power-cable-missing"]


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0xffff:1290)",
        "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "power-cable-missing" not in slugs(text)
