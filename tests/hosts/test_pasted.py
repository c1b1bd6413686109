import bz2
import gzip
import io
import lzma
import os
import socket
import tarfile
import threading
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ongpu.engine import diagnose
from ongpu.hosts import archives, pasted, recorded
from ongpu.hosts.pasted import Unreadable, read_bytes, read_file
from ongpu.model import Evidence

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
REPORT = (
    ("_" * 44 + "\n\nStart of NVIDIA bug report log file.\n" + "_" * 44 + "\n\n/usr/bin/dmesg\n\n" + XID)
    + "_" * 44
    + "\n"
)


def tar(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def told(evidence: list[Evidence]) -> list[str]:
    return [item.problem for item in evidence if item.problem]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_log(pack: "object") -> None:
    (item,) = read_bytes(pack(XID.encode()), "kern.log.gz")  # type: ignore[operator]
    assert item.text == XID.strip()
    assert item.origin == "kern.log"


def test_a_bug_report_has_sections_and_commands() -> None:
    items = read_bytes(gzip.compress(REPORT.encode()), "nvidia-bug-report.log.gz")
    assert [item.command for item in items if XID.strip() in item.text] == ["dmesg"]


def test_a_truncated_gzip_is_read_as_far_as_it_goes() -> None:
    data = gzip.compress((XID * 3000 + os.urandom(20_000).hex()).encode())
    items = read_bytes(data[: len(data) // 2], "a.log.gz")
    assert "Xid" in items[0].text
    assert told(items) == ["cut off: only the part that is there was read"]


def test_a_damaged_gzip_is_one_clear_line() -> None:
    with pytest.raises(Unreadable, match="damaged archive"):
        read_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\3" + b"\xff" * 50, "a.gz")


@pytest.mark.parametrize("pack", [tar, zipped, lambda f: tar(f, "w")])
def test_an_archive_of_logs(pack: "object") -> None:
    files = {"logs/a.log": XID.encode(), "../../etc/passwd": b"text of a traversal\n", "b.png": b"\x89PNG\r\n\x1a\n"}
    items = read_bytes(pack(files), "logs.tgz")  # type: ignore[operator]
    assert {item.origin.partition(":")[2] for item in items} >= {"logs/a.log", "../../etc/passwd"}
    assert told(items) == ["binary file (PNG image); give the text that was printed"]


def test_archives_in_archives() -> None:
    inner = tar({"x.log.gz": gzip.compress(XID.encode())})
    assert any(XID.strip() in item.text for item in read_bytes(zipped({"in.tgz": inner}), "out.zip"))
    data = gzip.compress(XID.encode())
    for _ in range(5):
        data = gzip.compress(data)
    with pytest.raises(Unreadable):
        read_bytes(data, "deep.gz")


def test_bombs_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "RATIO_FROM", 4 << 20)
    text = (b"word " * 200 + b"\n") * 20_000
    items = read_bytes(gzip.compress(text), "bomb.gz")
    assert any("the rest was not read" in problem for problem in told(items))
    items = read_bytes(zipped({"a.txt": text, "b.txt": XID.encode()}), "bomb.zip")
    assert any("the rest was not read" in problem for problem in told(items))
    assert any(XID.strip() in item.text for item in items)


def test_too_many_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBERS", 5)
    for pack in (tar, zipped):
        items = read_bytes(pack({f"{i}.log": XID.encode() for i in range(9)}), "many")
        assert any("more than 5 files" in problem for problem in told(items))


def test_a_tar_that_is_cut_off() -> None:
    data = tar({"a.log": XID.encode(), "b.log": b"x" * 50_000}, "w")
    items = read_bytes(data[:5000], "a.tar")
    assert XID.strip() in items[0].text


@pytest.mark.parametrize("data", [zipped({}), b"PK\x03\x04broken", zipped({"data.pkl": b"\x80\x02}q\0." * 9})])
def test_an_archive_without_text(data: bytes) -> None:
    with pytest.raises(Unreadable):
        read_bytes(data, "model.pt")


def test_our_own_snapshots(tmp_path: Path) -> None:
    path = tmp_path / "snap.tar.gz"
    recorded.write([Evidence("kernel-log", XID, "dmesg")], path, "1")
    assert [item.kind for item in read_file(path)] == ["kernel-log"]
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "snap", filter="data")
    assert [item.kind for item in read_file(tmp_path / "snap")] == ["kernel-log"]


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="directory"):
        read_file(tmp_path)
    with pytest.raises(Unreadable, match="device"):
        read_file(Path("/dev/zero"))
    with pytest.raises(Unreadable, match="empty"):
        read_file(Path(os.devnull))
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "no")


def test_a_named_pipe_is_read(tmp_path: Path) -> None:
    import threading

    path = tmp_path / "pipe"
    os.mkfifo(path)
    thread = threading.Thread(target=path.write_text, args=(XID,))
    thread.start()
    assert read_file(path)[0].text == XID.strip()
    thread.join()


@settings(derandomize=True, max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=3000))
def test_any_bytes_give_an_answer(data: bytes) -> None:
    for packed in (data, gzip.compress(data), b"\x1f\x8b\x08\0" + data, b"PK\x03\x04" + data, zlib.compress(data)):
        try:
            evidence = read_bytes(packed, "x")
        except Unreadable:
            continue
        assert evidence


_PIECES = st.sampled_from(
    [
        "$ nvidia-smi\n",
        "\x1b[31m",
        "\r",
        "\0",
        "| 0 ",
        "Xid (PCI:0000:3b:00): ",
        'Traceback (most recent call last):\n  File "a", line 1\n',
        "RuntimeError: CUDA out of memory. Tried to allocate ",
        "torch==2.1.0+cu121\n",
        "NVIDIA-SMI 535.54",
        "export CUDA_VISIBLE_DEVICES=",
        "GPU 0: ",
        "PS C:\\> ",
        "> ",
        "```\n",
        "显存",
        "\ud800",
        "\n\n",
        "FROM nvidia/cuda\nRUN ",
        "apiVersion: v1\n",
        "[rank0]: ",
        "+-----+\n",
        "{",
        "<",
        "-1",
        "99999999999999999999",
    ]
)


@settings(derandomize=True, max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_PIECES | st.text(max_size=12), max_size=25))
def test_any_text_is_diagnosed_without_a_crash(parts: list[str]) -> None:
    report = diagnose(pasted.read_text("".join(parts), "x"), "x")
    assert not [outcome.because for outcome in report.outcomes if outcome.verdict.value == "crashed"]
    assert not [u for u in report.unread if "Error: " in u.because]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_a_pipe_is_read_until_its_writer_goes_and_none_is_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setattr(pasted, "NOBODY", 0.0)
    with pytest.raises(Unreadable, match="nobody writes"):
        read_file(path)
    writer = os.open(path, os.O_RDWR)
    try:
        monkeypatch.setattr(pasted, "SILENT", 0.0)
        with pytest.raises(Unreadable, match="nothing was written"):
            read_file(path)
    finally:
        os.close(writer)
    monkeypatch.undo()
    thread = threading.Thread(target=lambda: path.write_text(XID))
    thread.start()
    assert [item.text for item in read_file(path)] == [XID.rstrip()]
    thread.join()


def test_devices_and_sockets_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket may have a hundred characters
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("here")
        with pytest.raises(Unreadable, match="a socket"):
            read_file(Path("here"))
    for device in ("/dev/zero", "/dev/random", "/dev/ttyS0"):
        if os.path.exists(device):
            with pytest.raises(Unreadable, match="a device"):
                read_file(Path(device))
