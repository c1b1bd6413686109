"""What a run died of: the exit classes, from real output through the same rules as `ongpu run`; hostile output; children that fail."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ongpu.queue.engines.local import autopsy, died
from ongpu.queue.engines.local.autopsy import KEYS, Autopsies, last, perform, quick, told
from ongpu.queue.engines.local.died import answer, evidence, judged

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the engine is for Unix")
OOM = """\
Traceback (most recent call last):
  File "train.py", line 10, in <module>
    y = model(x)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.14 GiB of which 1.50 GiB is free. \
Process 123 has 77.60 GiB memory in use. Of the allocated memory 76.00 GiB is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch \
but unallocated.
"""
PLAIN_OOM = "RuntimeError: CUDA out of memory.\n"
BUG = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: bad\n'
NONE = {"machine": 1 << 40}  # what the kernel counted before: no program was ended for want of memory since
XID = "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def gpu(index: int = 0, **more: Any) -> dict[str, Any]:
    return {"uuid": f"GPU-{index}", "index": index, "name": "A100", "memory": 81920, "how": "ok", "unfit": None, "xids": [], **more}


def request(code: int | None = 1, **more: Any) -> dict[str, Any]:
    about = {"output": "", "code": code, "wish": "", "started": 1000.0, "ended": 2000.0, "kills": None, "gpus": [gpu(0), gpu(1)], "log": []}
    return {**about, **more}


def judge(output: str = "", code: int | None = 1, **more: Any) -> dict[str, Any]:
    """The answer of the rules, in this process."""
    asked = request(code, **more)
    found = answer(asked, judged(asked, output), output)
    assert tuple(found) == KEYS
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def kind(found: dict[str, Any]) -> tuple[str, str, str, str]:
    return found["ending"], found["class"], found["slug"], found["outcome"]


class TestClasses:
    def test_out_of_memory_says_what_would_have_fitted(self) -> None:
        found = judge(OOM)
        assert kind(found) == ("out-of-memory", "memory", "oom-batch-too-large", "explained")
        assert "79.6 GiB" in found["fits_en"]
        assert "--memory 84GiB" in found["fits_zh"]
        plain = judge(PLAIN_OOM)
        assert plain["ending"] == "out-of-memory"
        assert "80.0 GiB" in plain["fits_en"]
        assert plain["fits_zh"] != plain["fits_en"]
        assert "not known" in judge(PLAIN_OOM, gpus=[])["fits_en"]

    def test_a_programs_own_fault(self) -> None:
        found = judge(BUG)
        assert kind(found) == ("program", "user", "", "explained")
        assert found["title_en"] == found["title_zh"] == "ValueError: bad"

    def test_a_crash_that_nothing_explains_bears_on_the_gpu(self) -> None:
        found = judge("hello\n", 128 + signal.SIGSEGV)
        assert (kind(found), found["title_en"]) == (("signal", "user", "", "unexplained"), "ended by SIGSEGV: hello")
        assert judge("x\nRuntimeError: CUDA error: of an unheard kind\n")["outcome"] in ("unexplained", "explained")
        assert judge("", 3)["outcome"] == "explained"

    def test_a_gpu_that_fell_off_the_bus(self) -> None:
        found = judge("x", gpus=[gpu(0), gpu(1, how="lost", xids=[[1500.0, 79]])], log=[[1500.0, XID]])
        assert kind(found) == ("gpu-fault", "gpu", "gpu-fell-off-bus", "fault")
        assert (found["gpus_at_fault"], found["avoid"]) == (["GPU-1"], ["GPU-1"])
        assert judge("x", gpus=[gpu(0, how="gone")])["gpus_at_fault"] == ["GPU-0"]

    def test_by_an_xid_alone(self) -> None:
        found = judge("x", gpus=[gpu(0), gpu(1, xids=[[1500.0, 48]])])
        assert (found["ending"], found["gpus_at_fault"]) == ("gpu-fault", ["GPU-1"])

    def test_where_it_is_not_known_which_all_are_avoided(self) -> None:
        found = judge("x", log=[[1500.0, XID]])
        assert (found["ending"], found["gpus_at_fault"], found["avoid"]) == ("gpu-fault", [], ["GPU-0", "GPU-1"])

    def test_what_was_before_or_after_is_not_its_own(self) -> None:
        for at in (900.0, 2100.0):
            assert judge("x", gpus=[gpu(0, xids=[[at, 79]])], log=[[at, XID]])["ending"] == "program"

    def test_an_xid_of_the_program_itself(self) -> None:
        said = "RuntimeError: CUDA error: an illegal memory access was encountered\n"
        found = judge(said, gpus=[gpu(0, xids=[[1500.0, 31]])])
        assert (found["ending"], found["gpus_at_fault"]) == ("program", [])

    @pytest.mark.parametrize(("wish", "code", "ending", "group"), [
        ("cancel", 143, "stopped", "user"), ("cancel", 137, "stopped", "user"), ("cancel", 0, "stopped", "user"),
        ("preempt", 143, "preempted", "preempted"), ("preempt", 0, "preempted", "preempted"), ("timeout", 137, "timeout", "user"),
        ("idle", 143, "idle", "user"), ("", 0, "ok", ""), ("", None, "vanished", "lost"), ("", 137, "signal", "user"),
    ])  # fmt: skip
    def test_asked_or_not(self, wish: str, code: int | None, ending: str, group: str) -> None:
        found = judge("x", code, wish=wish, kills=NONE)
        assert (found["ending"], found["class"]) == (ending, group)
        if code == 0:
            assert quick(request(code, wish=wish)) == found

    def test_a_fault_counts_more_than_a_wish(self) -> None:
        found = judge("x", 143, wish="preempt", gpus=[gpu(0, how="lost")])
        assert (found["ending"], found["gpus_at_fault"]) == ("gpu-fault", ["GPU-0"])
        found = judge("x", 137, wish="fault", gpus=[gpu(0), gpu(1, how="hung")])
        assert (found["ending"], found["gpus_at_fault"], found["outcome"]) == ("gpu-fault", ["GPU-1"], "fault")
        assert judge("x", 137, wish="fault", gpus=[gpu(0, unfit="ecc-uncorrectable")])["gpus_at_fault"] == ["GPU-0"]
        assert quick(request(0, wish="fault")) is None

    def test_a_run_that_failed_without_a_word_is_not_looked_into(self, tmp_path: Path) -> None:
        found = quick(request(3, output=str(tmp_path / "none")))
        assert found == judge("", 3)
        for more in ({"gpus": [gpu(0, how="lost")]}, {"gpus": [gpu(0, xids=[[1500.0, 31]])]}, {"log": [[1500.0, XID]]}, {"code": 139}):
            assert quick(request(**{"code": 3, **more})) is None
        (tmp_path / "output").write_text("x")
        assert quick(request(3, output=str(tmp_path / "output"))) is None

    def test_the_hosts_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from ongpu.hosts import oom_kills

        line = "kernel: 1 oom_kill event on this machine while the command ran (/proc/vmstat)"
        monkeypatch.setattr(oom_kills, "since", lambda before: line)
        found = judge("x", 137, kills={"machine": 3})
        assert kind(found)[:3] == ("host-memory", "memory", "host-oom")
        monkeypatch.setattr(oom_kills, "since", lambda before: "")
        assert judge("x", 137, kills={"machine": 3})["ending"] == "signal"
        shell = "./run.sh: line 3:   812 Killed                  python train.py"
        assert judge(shell, 137)["ending"] == "host-memory", "as far as can be told"
        assert judge(shell, 137, kills={"machine": 3})["ending"] == "signal", "the kernel counted none"

    def test_without_a_report(self) -> None:
        found = answer(request(137, gpus=[gpu(0, xids=[[1500.0, 79]])]), None, "")
        assert (found["ending"], found["gpus_at_fault"]) == ("gpu-fault", ["GPU-0"])


keys = st.sampled_from(["uuid", "index", "how", "xids", "memory"])
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 300) | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)


@example({"gpus": [{"index": ":", "memory": "x", "xids": [[1.0, 79]]}]})
@given(st.dictionaries(st.sampled_from(["code", "wish", "started", "ended", "kills", "gpus", "log", "output"]), junk))
def test_any_request_has_an_answer(asked: dict[str, Any]) -> None:
    found = answer(asked, None, "x")
    assert tuple(found) == KEYS
    evidence({**asked, "code": 0}, "")
    json.dumps(found)


@given(st.binary(max_size=200))
def test_any_words_of_a_child(text: bytes) -> None:
    assert told(text) is None


class TestOutput:
    def test_the_end_of_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "output"
        path.write_bytes(b"x" * 300_000 + b"\xff\xfeend")
        assert last(str(path)).endswith("end")
        assert len(last(str(path))) <= autopsy.KEPT
        assert last(str(tmp_path / "none")) == last("") == ""
        assert last(str(tmp_path)) == ""

    def test_a_pipe_does_not_hold_it_up(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        assert last(str(tmp_path / "pipe")) == ""

    def test_output_that_is_hostile(self, tmp_path: Path) -> None:
        path = tmp_path / "output"
        begin = time.monotonic()
        hostile = (b"\0" * 200_000, b"(" * 200_000, b"CUDA out of memory. Tried to allocate " * 6000, b"\x1b[2J" * 40_000)
        for text in (*hostile, os.urandom(200_000)):
            path.write_bytes(text)
            assert judge(last(str(path)))["ending"] in ("program", "out-of-memory")
        assert time.monotonic() - begin < 60


@pytest.fixture
def children() -> Iterator[Autopsies]:
    found = Autopsies()
    yield found
    found.close()


def wait(children: Autopsies, many: int, seconds: float = 30.0) -> dict[Any, dict[str, Any]]:
    found: dict[Any, dict[str, Any]] = {}
    end = time.monotonic() + seconds
    while len(found) < many:
        assert time.monotonic() < end, found
        found.update(children.done())
        time.sleep(0.01)
    return found


class TestChildren:
    def test_one_child_for_many(self, children: Autopsies, tmp_path: Path) -> None:
        for number in range(20):
            (tmp_path / str(number)).write_text(OOM if number % 2 else BUG)
            children.ask(number, request(1, output=str(tmp_path / str(number))))
        found = wait(children, 20)
        assert [found[n]["ending"] for n in range(4)] == ["program", "out-of-memory"] * 2
        assert children.process
        assert children.done() == []

    def test_one_waits_until_its_gpus_were_looked_at(self, children: Autopsies, monkeypatch: pytest.MonkeyPatch) -> None:
        looked: list[bool] = []
        children.ask("a", request(139, kills=NONE), lambda: bool(looked), lambda: request(139, gpus=[gpu(0, how="lost")]))
        children.ask("b", request(139, kills=NONE))
        assert list(wait(children, 1)) == ["b"], "it holds up no other"
        assert children.done() == []
        looked.append(True)
        assert wait(children, 1)["a"]["gpus_at_fault"] == ["GPU-0"], "what is known then"
        monkeypatch.setattr(autopsy, "NEWS", 0.2)
        children.ask("c", request(139, kills=NONE), lambda: False)
        assert wait(children, 1, 5.0)["c"]["ending"] == "signal", "but not for ever"

    def test_it_ends_when_nothing_is_asked(self, children: Autopsies, monkeypatch: pytest.MonkeyPatch) -> None:
        children.ask(1, request(139, kills=NONE))
        wait(children, 1)
        monkeypatch.setattr(autopsy, "REST", 0.0)
        children.done()
        assert children.process is None

    def test_one_that_is_killed(self, children: Autopsies) -> None:
        for number in range(3):
            children.ask(number, request(128 + 9, kills=NONE))
        children.done()
        assert children.process
        children.process.kill()
        assert {one["ending"] for one in wait(children, 3).values()} == {"signal"}

    def test_one_that_hangs(self, children: Autopsies, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        script = tmp_path / "hangs"
        script.write_text("#!/bin/sh\nexec sleep 60\n")
        script.chmod(0o755)
        monkeypatch.setattr(autopsy, "LIMIT", 0.5)
        monkeypatch.setattr(sys, "executable", str(script))
        children.ask("a", request(1, gpus=[gpu(0, xids=[[1500.0, 79]])]))
        begin = time.monotonic()
        assert wait(children, 1)["a"]["gpus_at_fault"] == ["GPU-0"]
        assert time.monotonic() - begin < 5
        assert children.process is None

    def test_one_that_cannot_be_started(self, children: Autopsies, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
        children.ask("a", request(3))
        assert wait(children, 1)["a"]["ending"] == "program"

    def test_a_request_longer_than_a_pipe(self, children: Autopsies) -> None:
        children.ask("a", request(1, log=[[1500.0, "y" * 1000]] * 1000, gpus=[gpu(0, xids=[[1500.0, 79]])]))
        assert wait(children, 1)["a"]["ending"] == "gpu-fault"

    def test_waited_for(self, tmp_path: Path) -> None:
        (tmp_path / "output").write_text(OOM)
        assert perform(request(1, output=str(tmp_path / "output")))["slug"] == "oom-batch-too-large"
        assert perform(request(0))["ending"] == "ok"


def test_every_class_is_one_of_the_issues() -> None:
    assert set(died.CLASSES.values()) | {"user"} == {"", "user", "memory", "gpu", "preempted", "lost"}
