import pytest
from asking import explain

from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine


def system(text: str) -> str | None:
    machine = explain(text).fact(Machine)
    return machine.system if machine else None


@pytest.mark.parametrize(
    ("text", "version", "flavour"),
    [
        ("nvidia-open 580.95.05 on Arch", "580.95.05", "open"),
        ("RTX 5090, driver 570.86.16 open", "570.86.16", "open"),
        ("Driver: 535.54 (proprietary)", "535.54", "proprietary"),
        ("NVIDIA-Linux-x86_64-550.54.14.run", "550.54.14", None),
        ("Driver Version: 535.183.01", "535.183.01", None),
    ],
)
def test_driver(text: str, version: str, flavour: str | None) -> None:
    driver = explain(text).fact(Driver)
    assert driver is not None
    assert (driver.version, driver.flavour) == (version, flavour)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("dxcore initialization failed, continuing assuming a non-WSL environment", None),
        ("mac 13.0, torch 2.1", "macos"),
        ("sliding windows of 30 s", None),
        ("Windows of the attention are 512 wide", None),
        ("Windows 11, RTX 4060", "windows"),
        ("WSL2, RTX 4060", "linux"),
    ],
)
def test_system(text: str, told: str | None) -> None:
    assert system(text) == told
