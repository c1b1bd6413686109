import gzip
import io
import json
import os
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest
from parts import profiles

from ongpu.hosts import archives, pasted
from ongpu.hosts.pasted import Unreadable, read_bytes, read_file
from ongpu.hosts.traces import files
from ongpu.model import Evidence

TRACE = profiles.text(profiles.kineto())


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def kinds(evidence: list[Evidence]) -> list[str]:
    return [item.kind for item in evidence]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (TRACE, "profile"),
        (b"\xef\xbb\xbf" + TRACE, "profile"),
        (json.dumps(profiles.kineto()["traceEvents"]).encode(), "profile"),
        (gzip.compress(TRACE), "profile"),
        (gzip.compress(profiles.text(profiles.jax())), "profile"),
        (zipped({"a/trace.json": TRACE}), "profile"),
        (profiles.pickled(profiles.snapshot()), "memory_snapshot"),
        (gzip.compress(profiles.pickled(profiles.snapshot(), 5)), "memory_snapshot"),
        (json.dumps(profiles.snapshot()).encode(), "memory_snapshot"),
        (json.dumps(profiles.snapshot()["segments"]).encode(), "memory_snapshot"),
    ],
)
def test_recognised_by_what_is_in_it(data: bytes, kind: str) -> None:
    assert kinds(read_bytes(data, "x"))[0] == kind


@pytest.mark.parametrize(
    "data",
    [
        b'{"gpus": [{"name": "A100"}], "driver": "535"}',
        b'{"kind": "Pod", "spec": {"containers": []}}',
        b'{"cells": [], "nbformat": 4}',
        b"[1, 2]",
        b'{"a": "traceEvents"}',
    ],
)
def test_other_json_stays_text(data: bytes) -> None:
    assert kinds(read_bytes(data, "x")) == ["pasted"]


def test_a_pasted_trace_is_one(tmp_path: Path) -> None:
    assert kinds(pasted.read_text(TRACE.decode(), "paste")) == ["profile"]


def test_a_kept_digest_is_read_again() -> None:
    first = read_bytes(TRACE, "x")[0]
    again = read_bytes(first.text.encode(), "x")[0]
    assert (again.kind, again.text) == (first.kind, first.text)


def test_the_digest_tells_no_path_of_the_user() -> None:
    text = read_bytes(profiles.pickled(profiles.snapshot()), "x")[0].text
    assert "/home/u" not in text


def test_a_trace_that_is_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    for data in (TRACE[:-2000], gzip.compress(TRACE)[:-300]):
        path = tmp_path / "t.json"
        path.write_bytes(data)
        evidence = read_file(path)
        assert evidence[0].kind == "profile"
        assert '"gpu": 0' in evidence[0].text
        assert "unread" in kinds(evidence)


def test_progress_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(profiles.text(profiles.kineto(steps=40)))
    told: list[tuple[int, int]] = []
    read_file(path, pasted.Reader(tick=lambda done, size: told.append((done, size))))
    assert told[0][1] == path.stat().st_size
    assert told[-1][0] == path.stat().st_size


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"traceEvents": []}', "without any event"),
        (b'{"traceEvents": ' + b"[" * 100_000, "nested too deeply"),
        (profiles.pickled({"a": 1}), "no memory snapshot"),
        (b"\x80\x04cos\nsystem\n.", "would run code"),
        (b"SQLite format 3\0" + os.urandom(3000), "SQLite"),
    ],
)
def test_what_cannot_be_read_is_told(data: bytes, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        read_bytes(data, "x")


def test_a_bomb_is_not_unpacked_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "RATIO_FROM", 1 << 20)
    monkeypatch.setattr(files, "MAX_UNPACKED", 64 << 20)
    event = json.dumps({"ph": "i", "ts": 1}).encode()
    bomb = gzip.compress(b'{"traceEvents": [' + b",".join([event] * 2_000_000) + b"]}", 9)
    evidence = read_bytes(bomb, "x")
    assert any("unpacks to more than" in (item.problem or "") for item in evidence)


def test_a_larger_trace_than_a_log_may_be_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_UNPACKED", 1 << 20)
    whole = profiles.text(profiles.kineto(steps=20, kernels=200))
    assert len(whole) > 2 << 20
    assert "unread" not in kinds(read_bytes(gzip.compress(whole), "x"))


class TestNsys:
    def test_progress_of_a_database_is_told_in_rows(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from ongpu.hosts.traces import nsys

        monkeypatch.setattr(nsys, "TICK", 50)
        told: list[tuple[int, int]] = []
        path = profiles.nsys(tmp_path / "a.sqlite", profiles.kineto())
        read_file(path, pasted.Reader(tick=lambda done, size: told.append((done, size))))
        rows = 240 + 241 + 4  # kernels, calls, steps
        assert {size for _, size in told} == {rows}
        assert [done for done, _ in told] == sorted(done for done, _ in told)
        assert told[-1][0] >= rows - 50

    def test_the_same_timeline_gives_the_same_waits(self, tmp_path: Path) -> None:
        trace = profiles.kineto(load=20_000)
        report = read_file(profiles.nsys(tmp_path / "a.sqlite", trace))[0].text
        kineto = read_bytes(profiles.text(trace), "x")[0].text
        wanted = [line for line in kineto.split("\n") if line.startswith(('{"gpu"', '{"idle"', '{"loading"', '{"family"', '{"card"'))]
        found = [line for line in report.split("\n") if line.startswith(('{"gpu"', '{"idle"', '{"loading"', '{"family"', '{"card"'))]
        assert found == wanted

    @pytest.mark.parametrize(
        "missing",
        [
            "CUPTI_ACTIVITY_KIND_KERNEL",
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            "NVTX_EVENTS",
            "StringIds",
            "TARGET_INFO_GPU",
        ],
    )
    def test_missing_tables_are_left_out(self, tmp_path: Path, missing: str) -> None:
        evidence = read_file(profiles.nsys(tmp_path / "a.sqlite", profiles.kineto(), without=(missing,)))
        assert kinds(evidence) == ["profile"]
        assert ('"gpu": 0' in evidence[0].text) is (missing != "CUPTI_ACTIVITY_KIND_KERNEL")

    def test_the_file_is_not_changed_and_nothing_is_left_beside_it(self, tmp_path: Path) -> None:
        path = profiles.nsys(tmp_path / "a ?#%.sqlite", profiles.kineto())
        before = path.read_bytes()
        path.chmod(0o444)
        read_file(path)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_packed_or_from_a_pipe_it_is_read_in_memory(self, tmp_path: Path) -> None:
        data = profiles.nsys(tmp_path / "a.sqlite", profiles.kineto()).read_bytes()
        assert kinds(read_bytes(gzip.compress(data), "x")) == ["profile"]

    def test_another_database_is_told_to_be_one(self, tmp_path: Path) -> None:
        base = sqlite3.connect(tmp_path / "b.db")
        base.execute("CREATE TABLE a (b)")
        base.commit()
        base.close()
        with pytest.raises(Unreadable, match="not a report of Nsight Systems"):
            read_file(tmp_path / "b.db")

    @pytest.mark.parametrize("value", ["'text'", "NULL", "1.5", "x'00ff'", "9223372036854775807", "-1"])
    def test_wrong_types_are_left_out(self, tmp_path: Path, value: str) -> None:
        path = profiles.nsys(tmp_path / "a.sqlite", profiles.kineto())
        base = sqlite3.connect(path)
        for column in ("start", "deviceId", "correlationId", "demangledName"):
            base.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {column} = {value} WHERE rowid % 7 = 0")
        base.commit()
        base.close()
        assert '"gpu": 0' in read_file(path)[0].text

    def test_views_and_odd_names_are_not_touched(self, tmp_path: Path) -> None:
        path = profiles.nsys(tmp_path / "a.sqlite", profiles.kineto(), without=("NVTX_EVENTS",))
        base = sqlite3.connect(path)
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i AS end, 59 AS eventType FROM n"
        base.execute(f"CREATE VIEW NVTX_EVENTS AS {endless}")
        base.execute('CREATE TABLE "x"" y" (a)')
        base.commit()
        base.close()
        assert kinds(read_file(path)) == ["profile"]

    def test_a_damaged_file_is_told(self, tmp_path: Path) -> None:
        path = profiles.nsys(tmp_path / "a.sqlite", profiles.kineto())
        data = bytearray(path.read_bytes())
        for at in range(5000, len(data), 977):
            data[at] ^= 0x5A
        path.write_bytes(bytes(data[: len(data) * 2 // 3]))
        try:
            evidence: Any = read_file(path)
        except Unreadable as error:
            evidence = error
        assert evidence


def test_files_that_have_to_be_exported_first_say_how(tmp_path: Path) -> None:
    for name, command in (("r.nsys-rep", "nsys export"), ("r.ncu-rep", "ncu --import"), ("h.xplane.pb", "trace.json.gz")):
        path = tmp_path / name
        path.write_bytes(bytes(range(256)) * 20)
        with pytest.raises(Unreadable, match=command):
            read_file(path)
