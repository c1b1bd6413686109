"""A driver that never answers: told within the limit, with the call that hangs."""

import time
from pathlib import Path

import pytest
from parts.machines import Box

from live.test_matrix import told
from ongpu.facts.driver import Driver
from ongpu.hosts import nvml as host
from ongpu.model import Report, Verdict

pytestmark = pytest.mark.real


def examine(box: Box, root: Path, library: Path) -> tuple[Report, float]:
    """What the doctor says, and how long it took."""
    box.write(root)
    start = time.monotonic()
    return box.report(library), time.monotonic() - start


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("hang.Init = 1", "nvmlInit"),
        ("gpu.2.hang = 1", "GPU 2"),
        ("hang.PowerUsage = 1", "GPU 0"),
        ("hang.SystemGetDriverVersion = 1", "nvmlInit"),
    ],
)
def test_hung(line: str, where: str, tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "SILENCE", 1.0)
    report, seconds = examine(Box(cards=4, nvml=[line]), tmp_path, nvml)
    assert seconds < 6
    assert report.findings[0].slug == "driver-hung"
    assert where in report.findings[0].text("en").title
    assert where in report.findings[0].text("zh").title
    driver = report.fact(Driver)
    assert driver
    assert (driver.hung, driver.hung_in) == (True, where)
    assert all("timed out" in because for _, because in told(report))


def test_the_log_names_the_cause(tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "SILENCE", 1.0)
    box = Box(cards=4, nvml=["gpu.3.hang = 1"])
    box.break_log(
        "NVRM: Xid (PCI:0000:1d:00): 119, pid=2110, name=python3, Timeout after 6s of waiting for RPC response from GPU GSP!"
    )
    report, _ = examine(box, tmp_path, nvml)
    assert report.findings[0].slug == "gsp-timeout"
    assert "driver-hung" not in [f.slug for f in report.findings]


def test_slow_is_not_hung(tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cards without persistence mode take long to start, each: what counts is how long nothing is said."""
    monkeypatch.setattr(host, "SILENCE", 1.5)
    report, seconds = examine(Box(cards=3, nvml=["latency_us.PowerUsage = 900000"]), tmp_path, nvml)
    assert seconds > 2.5
    assert report.verdict is Verdict.CLEAR, [f.slug for f in report.findings]


@pytest.mark.slow
def test_with_the_real_limit(tmp_path: Path, nvml: Path) -> None:
    report, seconds = examine(Box(cards=1, nvml=["hang.Init = 1"]), tmp_path, nvml)
    assert 14 < seconds < 25
    assert report.findings[0].slug == "driver-hung"
