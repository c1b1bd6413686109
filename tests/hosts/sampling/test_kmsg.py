"""The kernel's log: records parsed, only what can matter told, once, and not too much of it."""

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.hosts.sampling import kmsg

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/kmsg, as Linux has it")
XID = "NVRM: Xid (PCI:0000:1a:00): 79, pid=1, GPU has fallen off the bus."


def test_record() -> None:
    assert kmsg.record(f"3,1234,5000000,-;{XID}\n SUBSYSTEM=pci\n".encode()) == (1234, 5.0, XID)
    assert kmsg.record(b"6,1,2,-;usb 1-1: new device") is None
    assert kmsg.record(b"6,1,2,-,caller=T1;nvidia: loaded") == (1, 2e-6, "nvidia: loaded")
    for text in ("pcieport 0000:00:01.0: AER: Corrected error", "Out of memory: Killed process 5 (python)", "PCIe Bus Error: severity=x"):
        assert kmsg.record(f"4,7,8,-;{text}".encode()) == (7, 8e-6, text)


@given(st.binary(max_size=200))
def test_nothing_breaks_it(data: bytes) -> None:
    kmsg.record(data)
    kmsg.record(b"4,1,2,-;NVRM " + data)


def lines(path: str, after: int = -1) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    kmsg.follow(lambda **line: said.append(line), after, path)
    return said


def test_absence_is_told(tmp_path: Path) -> None:
    assert lines(str(tmp_path / "no")) == [{"k": "log", "error": "not found"}]
    if os.geteuid():
        (tmp_path / "closed").touch(mode=0o000)
        assert lines(str(tmp_path / "closed")) == [{"k": "log", "error": "denied"}]
    assert kmsg.problem(PermissionError(1, "x")) == "denied"
    assert kmsg.problem(OSError(5, "x")) == "Input/output error"


def feed_pipe(path: Path, records: list[bytes]) -> threading.Thread:
    """A pipe gives what was written at once, as the device gives a record: each is written when the last was read."""
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            for record in records:
                pipe.write(record)
                time.sleep(0.01)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


def test_each_line_once_with_its_own_time(tmp_path: Path) -> None:
    now = int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
    records = [f"3,{number},{now - 60_000_000},-;{text}\n".encode() for number, text in enumerate(["NVRM: a", "boring", "NVRM: b", XID])]
    thread = feed_pipe(tmp_path / "kmsg", records)
    said = lines(str(tmp_path / "kmsg"), after=0)
    thread.join()
    assert [(line["text"], line["seq"]) for line in said] == [("NVRM: b", 2), (XID, 3)]
    assert all(abs(line["t"] - (time.time() - 60)) < 5 for line in said)


def test_a_storm_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmsg, "MOST_A_SECOND", 5)
    now = int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
    thread = feed_pipe(tmp_path / "kmsg", [f"3,{number},{now},-;pcieport AER {number}\n".encode() for number in range(120)])
    said = lines(str(tmp_path / "kmsg"))
    thread.join()
    assert 5 <= len(said) <= 30
    assert any("more lines" in line["text"] for line in said)


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="the kernel's log is not ours to read")
def test_the_real_one_does_not_end() -> None:
    thread = threading.Thread(target=kmsg.follow, args=(lambda **line: None, -1), daemon=True)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
