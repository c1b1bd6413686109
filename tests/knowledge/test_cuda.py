"""CUDA and drivers."""

from datetime import date

import pytest

from ongpu.knowledge import cuda
from ongpu.knowledge._versions import numbers


@pytest.mark.parametrize(
    ("version", "linux", "windows"),
    [
        ("13.0", "580.65.06", "580"),
        ("13.5", "580.65.06", "580"),
        ("12.1", "525.60.13", "527.41"),
        ("12.8.1", "525.60.13", "527.41"),
        ("12", "525.60.13", "527.41"),
        ("cu124", "525.60.13", "527.41"),
        ("11.8", "450.80.02", "452.39"),
        ("11.0", "450.36.06", "451.22"),
        ("10.2", "440.33", "441.22"),
        ("10.1.243", "418.39", "418.96"),
        ("9.0", "384.81", "385.54"),
        ("10", "410.48", "411.31"),
        ("14.0", None, None),
        ("none", None, None),
    ],
)
def test_oldest_driver(version: str, linux: str | None, windows: str | None) -> None:
    assert cuda.oldest_driver_for(version) == linux
    assert cuda.oldest_driver_for(version, windows=True) == windows


@pytest.mark.parametrize(
    ("driver", "newest"),
    [
        ("470.82.01", "11.4"),
        ("472.50", "11.4"),
        ("525.85.12", "12.0"),
        ("535.104.05", "12.2"),
        ("537.13", "12.2"),
        ("552.44", "12.4"),
        ("565.57.01", "12.7"),
        ("580.95.05", "13.0"),
        ("610.57.04", "13.3"),
        ("700.1", None),
        ("361.42", None),
        ("garbage", None),
    ],
)
def test_cuda_of_driver(driver: str, newest: str | None) -> None:
    assert cuda.cuda_of_driver(driver) == newest


def test_branch_end_of_life() -> None:
    old, new = cuda.branch("535.309.01"), cuda.branch("580.65.06")
    assert old is not None
    assert new is not None
    assert old.ended(date(2026, 11, 30)) is True
    assert new.ended(date(2026, 11, 30)) is False
    assert new.ended(date(2028, 6, 30)) is False  # a month ends with its last day
    assert new.ended(date(2028, 7, 1)) is True


def test_drivers_of_a_gpu() -> None:
    assert cuda.newest_branch_for("3.5") == "470"
    assert cuda.newest_branch_for("6.1") == "580"
    assert cuda.newest_branch_for("8.6") == cuda.newest_branch()
    assert cuda.newest_branch_for("8.7") is None
    assert cuda.support_ended_after("7.0") == "580"
    assert cuda.support_ended_after("7.5") is None
    assert cuda.oldest_driver_for_gpu("12.0") == "570"
    assert cuda.oldest_driver_for_gpu("8.9") == "520"


@pytest.mark.parametrize(
    ("capability", "modules"),
    [
        ("6.1", "unsupported"),
        ("7.0", "unsupported"),
        ("7.5", "supported"),
        ("9.0", "supported"),
        ("10.0", "required"),
        ("12.0", "required"),
        ("99", None),
    ],
)
def test_open_modules(capability: str, modules: str | None) -> None:
    assert cuda.open_modules(capability) == modules


@pytest.mark.parametrize(
    ("toolkit", "capability", "is_supported"),
    [
        ("12.8", "12.0", True),
        ("12.6", "12.0", False),
        ("12.9", "6.1", True),
        ("13.0", "6.1", False),
        ("13.0", "7.0", False),
        ("11.7", "8.9", False),
        ("11.8", "9.0", True),
        ("13.5", "7.5", True),
        ("14.0", "7.5", None),
        ("12.8", "99.0", None),
    ],
)
def test_toolkit_supports(toolkit: str, capability: str, is_supported: bool | None) -> None:
    assert cuda.toolkit_supports(toolkit, capability) is is_supported


def test_cuda_of_build() -> None:
    assert [cuda.cuda_of_build(b) for b in ("cu118", "cu130", "cu92", "cpu", "rocm6.2", "")] == ["11.8", "13.0", "9.2", None, None, None]


def test_branches_and_toolkits_are_in_order() -> None:
    assert list(cuda.branches()) == sorted(cuda.branches(), key=lambda b: numbers(b.number))
    assert list(cuda.toolkits()) == sorted(cuda.toolkits(), key=lambda t: numbers(t.version), reverse=True)
    assert cuda.toolkits()[0].version.startswith(cuda.newest_toolkit())
    assert cuda.branches()[-1].number == cuda.newest_branch()


def test_a_floor_is_never_newer_than_the_driver_that_shipped() -> None:
    for toolkit in cuda.toolkits():
        floor = cuda.oldest_driver_for(toolkit.version)
        assert floor is not None
        if toolkit.linux_driver:
            assert numbers(floor) <= numbers(toolkit.linux_driver), toolkit


def test_forward_compatibility() -> None:
    facts = cuda.forward_compatibility()
    assert facts.error_on_other_cards == 804
    assert "consumer" not in facts.kinds
