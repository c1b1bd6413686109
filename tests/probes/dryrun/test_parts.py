"""The parts of the dry run that need no PyTorch: replay, ranks, sandbox, places, assumed numbers, the program itself."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ongpu.probes.dryrun import ranks
from ongpu.probes.dryrun.allocator import MIB, Settings
from ongpu.probes.dryrun.assumed import assumed
from ongpu.probes.dryrun.replay import fits, inherited, replay, through
from ongpu.probes.dryrun.sandbox import Sandbox
from ongpu.probes.dryrun.where import Where, told

FOLDER = Path(__file__).parents[3] / "src" / "ongpu" / "probes" / "dryrun"


class Piece:
    """A record as replay sees it."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


def test_replay_gives_the_peak_of_a_step() -> None:
    weight, activation, gradient = Piece(40 * MIB), Piece(100 * MIB), Piece(40 * MIB)
    events = [(activation, True), (gradient, True), (activation, False), (gradient, False)]
    assert replay([weight], events, Settings()) == (180 * MIB, 180 * MIB)
    assert fits([weight], events, Settings(), 180 * MIB)
    assert not fits([weight], events, Settings(), 179 * MIB)
    assert replay([weight], events, Settings(), lambda piece: piece.nbytes // 2 if piece is activation else piece.nbytes)[0] == 130 * MIB


def test_a_step_leaves_to_the_next_what_it_replaces() -> None:
    old, new, work = Piece(30 * MIB), Piece(30 * MIB), Piece(50 * MIB)
    events = [(work, True), (new, True), (old, False), (work, False)]
    assert inherited(events) == {old: new}
    # played twice: in the second round `new` is what is freed, so no third one is ever held
    assert replay([old], events, Settings())[0] == 110 * MIB


def test_histories_one_after_the_other() -> None:
    first, state, second = Piece(100 * MIB), Piece(40 * MIB), Piece(100 * MIB)
    windows = [[(first, True), (first, False), (state, True)], [(second, True), (second, False)]]
    # the state was cut out of the first activation's segment, so the second one needs a segment of its own
    assert through(windows, Settings()) == (140 * MIB, 200 * MIB)
    assert through(windows, Settings(), lambda piece: 10 * MIB if piece is state else piece.nbytes)[1] == 200 * MIB


def call(op: str, line: int = 1, group: int | None = None) -> dict[str, Any]:
    """One collective as a rank notes it."""
    return {"op": op, "shape": [[4]], "dtype": "float32", "place": {"file": "t.py", "line": line}, "group": group, "count": 1}


def answer(calls: list[dict[str, Any]], device: str = "cuda:0", **changes: Any) -> dict[str, Any]:
    """A rank's answer, so far as the comparison looks at it."""
    memory = {"peak_allocated": 0, "peak_reserved": 0, "others": {}}
    if device == "cuda:0":
        memory.update(peak_allocated=10, peak_reserved=20)
    else:
        memory["others"] = {device: {"peak_allocated": 10, "peak_reserved": 20}}
    return {"outcome": "stopped", "stopped_by": "steps", "error": None, "steps": 3, "memory": memory, "collectives": calls, **changes}


def test_ranks_that_agree() -> None:
    found = ranks.joined([answer([call("allreduce")] * 3), answer([call("allreduce")] * 3, "cuda:1")])
    assert found["mismatches"] == []
    assert [row["device"] for row in found["ranks"]] == ["cuda:0", "cuda:1"]
    assert found["ranks"][0]["collectives"][0]["count"] == 3
    assert "collectives" not in found


def test_a_collective_of_one_rank_alone_is_found_once() -> None:
    found = ranks.joined([answer([call("allreduce"), call("broadcast", 7), call("allreduce")]), answer([call("allreduce")] * 2)])
    assert [row["index"] for row in found["mismatches"]] == [1]
    assert found["mismatches"][0]["ranks"]["0"]["place"]["line"] == 7


def test_a_rank_that_ends_early_is_a_mismatch_unless_it_failed() -> None:
    long, short = [call("allreduce")] * 2, [call("allreduce")]
    assert ranks.joined([answer(long), answer(short)])["mismatches"][0]["ranks"]["1"] is None
    failed = ranks.joined([answer(long), answer(short, outcome="error", error={"type": "ValueError"})])
    assert failed["mismatches"] == []
    assert failed["outcome"] == "error"


def test_groups_smaller_than_the_world_are_not_compared() -> None:
    assert ranks.joined([answer([call("allreduce", group=1)]), answer([])])["mismatches"] == []


def test_a_rank_without_an_answer_is_no_all_is_well() -> None:
    found = ranks.joined([answer([]), None])
    assert found["ranks"][1]["outcome"] == "timeout"
    assert found["outcome"] == "timeout"


REFUSED = [
    ("open", ("{out}/x", "w", 0)), ("open", ("{out}/x", "a", 0)), ("open", ("{out}/x", None, os.O_WRONLY | os.O_CREAT)),
    ("os.remove", ("{out}/x", -1)), ("os.rename", ("{in}/a", "{out}/b", -1, -1)), ("os.mkdir", ("{out}/d", 511, -1)),
    ("shutil.rmtree", ("{out}",)), ("socket.connect", (None, ("10.1.2.3", 80))), ("socket.getaddrinfo", ("example.org", 80)),
    ("subprocess.Popen", ("ls",)), ("os.system", (b"ls",)), ("os.spawn", ("ls",)), ("open", ("{in}/../out/x", "w", 0)),
]  # fmt: skip
ALLOWED = [
    ("open", ("{out}/x", "r", 0)), ("open", ("{in}/x", "w", 0)), ("open", (3, "w", 0)), ("open", ("/dev/null", "w", 0)),
    ("os.remove", ("{in}/x", -1)), ("socket.connect", (None, ("127.0.0.1", 80))), ("socket.connect", (None, "/tmp/unix")),
    ("import", ("json",)), ("shutil.copyfile", ("{out}/a", "{in}/b")),
]  # fmt: skip


@pytest.mark.parametrize(("event", "arguments", "refused"), [(*e, True) for e in REFUSED] + [(*e, False) for e in ALLOWED])
def test_the_sandbox(tmp_path: Path, event: str, arguments: tuple[Any, ...], refused: bool) -> None:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    told_of: list[tuple[str, str]] = []
    sandbox = Sandbox([str(tmp_path / "in")], lambda what, path: told_of.append((what, path)))

    def placed(value: Any) -> Any:
        return value.replace("{in}", str(tmp_path / "in")).replace("{out}", str(tmp_path / "out")) if isinstance(value, str) else value

    if refused:
        with pytest.raises(PermissionError, match="sandbox"):
            sandbox._hook(event, tuple(placed(a) for a in arguments))
        assert told_of[0][0] == event
    else:
        sandbox._hook(event, tuple(placed(a) for a in arguments))
        assert told_of == []


def test_what_was_there_is_not_deleted(tmp_path: Path) -> None:
    script = """
import os, shutil, sys, time
sys.path.insert(0, sys.argv[1])
from ongpu.probes.dryrun.overlay import spare_old
os.mkdir("old"); open("old/a", "w").close(); open("b", "w").close()
time.sleep(0.05)
said = []
spare_old(time.time(), lambda what, path, where: said.append((what, path)))
time.sleep(0.05)
os.mkdir("new"); open("c", "w").close()
os.remove("b"); os.remove("c"); shutil.rmtree("old"); shutil.rmtree("new")
print(sorted(os.listdir(".")), said)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(FOLDER.parents[2])], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout.strip() == "['b', 'old'] [('delete', 'b'), ('delete', 'old')]", done.stderr


def test_the_users_line_is_the_innermost_of_his_own() -> None:
    where = Where("train.py")
    code = compile("def look(w):\n    return w.here(1)\n", os.path.join(os.path.dirname(json.__file__), "inside.py"), "exec")
    names: dict[str, Any] = {}
    exec(code, names)  # a frame that seems to lie in the standard library
    place = names["look"](where)
    assert place[0] == __file__
    assert place[2] == "test_the_users_line_is_the_innermost_of_his_own"
    said = told(place)
    assert said is not None
    assert said["text"] == 'place = names["look"](where)'


def test_an_assumed_number_tells_when_it_decides() -> None:
    rows: list[dict[str, Any]] = []

    class World:
        def assume(self, what: str, value: Any) -> dict[str, Any]:
            rows.append({"what": what, "value": value, "branched": False})
            return rows[-1]

    loss = assumed(World(), 1.0)
    mean = (loss * 2 + 1) / 3
    assert rows == []
    assert f"{mean:.2f}" == "1.00"
    assert isinstance(mean, float)
    assert mean <= 5
    assert rows == [{"what": "compare", "value": 1.0, "branched": True}]
    assert assumed(World(), True) is True


def test_wrong_use_is_said(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(FOLDER)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "usage" in done.stderr


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_the_syntax_is_that_of_python_3_8(path: Path) -> None:
    import ast

    ast.parse(path.read_text("utf-8"), feature_version=(3, 8))
