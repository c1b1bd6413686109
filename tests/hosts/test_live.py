"""Commands, files and listings of a machine: always an answer, never a hang, absence told."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ongpu.hosts import live
from ongpu.hosts.live import Live, ask, gather
from ongpu.hosts.processes import bounded, lines_of, which
from ongpu.model import Evidence, Get, Source

ENV = {"PATH": "/usr/bin:/bin"}


def source(*gets: Get, kind: str = "some") -> Source:
    return Source(kind=kind, read=lambda evidence: (), looks_like=lambda evidence: False, gives=(), get=gets)


def test_output_and_problem() -> None:
    assert bounded(["/bin/sh", "-c", "echo one; echo two >&2"], 5, ENV) == ("one\ntwo\n", None)
    assert bounded(["/bin/sh", "-c", "echo no; exit 3"], 5, ENV) == ("no\n", "exit status 3")
    assert bounded(["/bin/sh", "-c", "kill -9 $$"], 5, ENV)[1] == "ended by SIGKILL"


def test_time_limit_ends_the_whole_group() -> None:
    start = time.monotonic()
    text, problem = bounded(["/bin/sh", "-c", "echo $$; sleep 300 & sleep 300"], 0.5, ENV)
    assert time.monotonic() - start < 3
    assert problem == "timed out after 0.5 s"
    time.sleep(0.1)
    assert subprocess.run(["pgrep", "-r", "S,R,D", "-g", text.strip()], capture_output=True, check=False).stdout == b""


def test_lines_so_far_are_kept() -> None:
    text, problem = lines_of(["/bin/sh", "-c", "echo one; echo two; sleep 300"], 0.5, 30, ENV)
    assert (text, problem) == ("one\ntwo\n", "timed out after 0.5 s without an answer")
    assert lines_of(["/bin/sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.3; done"], 0.6, 30, ENV) == (
        "1\n2\n3\n",
        None,
    )
    assert lines_of(["/bin/sh", "-c", "while :; do echo x; sleep 0.1; done"], 5, 0.5, ENV)[1]


def test_absence_is_evidence(tmp_path: Path) -> None:
    machine = Live(root=tmp_path, environ=ENV)
    assert ask(machine, "k", Get(argv=("no-such-program",)))[0].problem == "not found"
    assert ask(machine, "k", Get(path="/etc/nothing"))[0].problem == "not found"
    assert ask(machine, "k", Get(path="/etc/*.nothing")) == []
    assert ask(machine, "k", Get(listing="/dev/nvidia*"))[0].problem == "not found"
    assert "AttributeError" in (ask(machine, "k", Get(call="system:no_such"))[0].problem or "")
    (tmp_path / "folder").mkdir()
    assert ask(machine, "k", Get(path="/folder"))[0].problem == "Is a directory"


def test_no_command_of_this_machine_tells_about_another_root(tmp_path: Path) -> None:
    assert ask(Live(root=tmp_path, environ=ENV), "k", Get(argv=("uname", "-r")))[0].problem == "not found"
    (tmp_path / ".ongpu").mkdir()
    (tmp_path / live.COMMANDS).write_text('{"uname -r": "5.15.0\\n"}')
    assert ask(Live(root=tmp_path, environ=ENV), "k", Get(argv=("uname", "-r")))[0].text == "5.15.0\n"
    (tmp_path / live.COMMANDS).write_text("[not json")
    assert ask(Live(root=tmp_path, environ=ENV), "k", Get(argv=("uname", "-r")))[0].problem == "not found"


def test_nodes_are_listed_with_modes(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch(mode=0o600)
    (tmp_path / "dev/nvidia1").touch()
    (tmp_path / "dev/nvidia1").chmod(0o666)
    (tmp_path / "dev/nvidia9").symlink_to("nowhere")
    (tmp_path / ".ongpu").mkdir()
    (tmp_path / live.COMMANDS).write_text('{"id": "uid=54321(ada) gid=54321(ada) groups=54321(ada)"}')
    lines = ask(Live(root=tmp_path, environ=ENV), "k", Get(listing="/dev/nvidia*"))[0].text.splitlines()
    assert [line.split()[0] for line in lines] == ["crw-------", "crw-rw-rw-"]
    assert [line.partition("# ")[2] for line in lines] == ["not openable", "openable"]


def test_long_files_keep_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_OUTPUT", 10)
    (tmp_path / "log").write_text("0123456789abcdef")
    assert ask(Live(root=tmp_path), "k", Get(path="/log"))[0].text == "6789abcdef"


def test_all_at_once_and_each_once(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/a").write_text("text")
    sources = (
        source(Get(path="/etc/a"), Get(path="/etc/b")), source(Get(path="/etc/a", kind="pasted"), Get(path="/etc/b", kind="pasted")),
        source(Get(path="/etc/a", only="windows")),
    )  # fmt: skip
    found = gather(Live(root=tmp_path, environ=ENV, system="linux"), sources)
    assert [(e.kind, e.origin, e.problem) for e in found] == [
        ("some", "/etc/b", "not found"),
        ("pasted", "/etc/a", None),
    ]


def test_work_is_done_in_steps_while_an_answer_is_awaited(tmp_path: Path) -> None:
    def steps() -> Iterator[None]:
        for number in range(10_000):
            taken.append(number)
            yield
            time.sleep(0.01)

    taken: list[int] = []
    start = time.monotonic()
    gather(Live(environ=ENV), [source(Get(argv=("sh", "-c", "sleep 0.3")))], steps())
    assert 2 < len(taken) < 1000, time.monotonic() - start
    taken.clear()
    gather(Live(root=tmp_path), [], steps())
    assert taken == [0]  # nothing is awaited: the first step only


def test_what_never_answers_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(live, "PATIENCE", 0.3)
    os.mkfifo(tmp_path / "pipe")  # to open it for reading waits for a writer, for ever
    found = gather(Live(root=tmp_path, environ=ENV, system="linux"), (source(Get(path="/pipe")),))
    assert found == [Evidence("some", "", "/pipe", problem="timed out after 0.3 s")]
    os.close(os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK))


@pytest.mark.skipif(sys.platform != "linux", reason="asks this Linux machine")
def test_this_machine_answers() -> None:
    from ongpu.engine import all_sources

    start = time.monotonic()
    found = gather(Live(python=sys.executable), all_sources())
    assert time.monotonic() - start < 30
    assert {"machine-state", "nvml", "python-environment"} <= {item.kind for item in found}


def test_a_program_is_found_where_the_standard_library_finds_it(tmp_path: Path) -> None:
    for name, mode in (("tool", 0o755), ("text", 0o644)):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(mode)
    (tmp_path / "folder").mkdir()
    path = os.pathsep.join(["/nonexistent", str(tmp_path)])
    for name in ("tool", "text", "folder", "none", str(tmp_path / "tool"), str(tmp_path / "none")):
        assert which(name, path) == shutil.which(name, path=path), name
    assert which("sh", None) == shutil.which("sh", path=os.defpath)
