import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import Pretend

from ongpu.fronts.page import cut, left, right
from ongpu.queue.config import Config, Cost
from ongpu.queue.job import Card
from ongpu.queue.reasons import Reason
from ongpu.report.layout import width_of

Ask = Callable[..., tuple[int, str, str]]
UUIDS = [f"GPU-{n:08x}-aaaa-bbbb-cccc-0123456789ab" for n in range(8)]
OOM = b"""step 1
Traceback (most recent call last):
  File "/home/ann/x/train.py", line 44, in <module>
    loss = model(x)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.33 GiB of which 3.24 GiB is free.\
 Including non-PyTorch memory, this process has 76.08 GiB memory in use. Of the allocated memory 75.00 GiB is allocated by PyTorch, and \
500.00 MiB is reserved by PyTorch but unallocated.
"""


@pytest.fixture
def full(pretend: Pretend) -> Pretend:
    now = time.time()
    pretend.cards = tuple(
        Card(id=UUIDS[n], index=n, name="NVIDIA A100-SXM4-80GB", memory=81920, util=97, state="drained" if n == 5 else "ok",
             slug="gpu-fell-off-bus" if n == 5 else "", jobs=("17",) if n < 4 else ())
        for n in range(8)
    )  # fmt: skip
    pretend.put(
        "17",
        "running",
        spec={"gpus": 4, "limit": 10800.0, "name": "llama.py", "folder": "/home/ann"},
        started=now - 7400,
        gpus=tuple(UUIDS[:4]),
        attempts=1,
        attained=29600.0,
    )
    pretend.put("18", "starting", spec={"name": "一个名字很长很长的中文作业名称需要截断显示的例子"}, gpus=(UUIDS[6],))
    behind = Reason("behind", {"gpus": 8, "fitting": 3}).json()
    pretend.put("20", "waiting", spec={"gpus": 8, "memory": 40960, "model": "A100", "name": "eval.py"}, since=now - 720, said=behind)
    for n in range(22, 62):
        pretend.put(str(n), "waiting", array="21", spec={"index": n - 22, "name": "sweep.py"}, since=now - 60, said=behind)
    pretend.put("62", "held", spec={"name": "later.py"}, since=now - 90_000)
    pretend.put(
        "12",
        "done",
        spec={"name": "prep.py"},
        started=now - 1000,
        ended=now - 300,
        code=0,
        ending="ok",
        attempts=1,
        attained=700.0,
        energy=3.6e6,
        busy=0.5,
        peak=30720,
        gpus=(UUIDS[0],),
    )
    pretend.put(
        "11",
        "failed",
        started=now - 4000,
        ended=now - 3700,
        code=1,
        ending="out-of-memory",
        slug="oom-batch-too-large",
        said="GPU 0 is full",
        attempts=1,
        attained=300.0,
    )
    pretend.put("9", "failed", started=now - 9000, ended=now - 8000, code=143, ending="timeout", attempts=2)
    pretend.outputs = {"11": [OOM[:50], OOM[50:]], "9": [b"one\ntwo\n"]}
    pretend.reasons = [("the fitting GPUs are held", "GPU 被占用")]
    return pretend


def test_the_list(ask: Ask, full: Pretend) -> None:
    code, out, said = ask("jobs")
    lines = out.splitlines()
    assert (code, said) == (0, "")
    assert lines[0] == "8 GPUs: 3 free, 4 busy, 1 drained (GPU 5: gpu-fell-off-bus)"
    assert [line.split("  ")[0] for line in lines if line[:1] not in (" ", "")][1:] == [
        "running (2)",
        "waiting (42)",
        "ended, the last first",
    ]
    assert next(line for line in lines if "llama.py" in line).split() == ["17", "llama.py", "0-3", "97%", "2h03m", "56m"]
    assert next(line for line in lines if "eval.py" in line).split() == ["20", "eval.py", "8", "×", "40G", "A100", "12m"]
    assert next(line for line in lines if "sweep.py" in line).split()[:2] == ["21", "sweep.py[0-39]"]  # an array is one row
    assert sum("the fitting GPUs are held" in line for line in lines) == 1  # the same is not said twice
    assert any("oom-batch-too-large: GPU 0 is full" in line for line in lines)
    assert any("it reached its time limit" in line for line in lines)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("words", [(), ("--all",), ("--why",), ("--cost",), ("17",), ("20",), ("11",), ("9",), ("12",), ("18",), ("62",)])
def test_nothing_is_wider_than_the_terminal(ask: Ask, full: Pretend, words: tuple[str, ...], lang: str) -> None:
    full.warning = ("nothing starts: " + "the daemon is not running and " * 5, "没有作业会启动：" + "守护进程未运行，" * 9)
    code, out, said = ask("jobs", "--lang", lang, *words)
    assert (code, said) == (0, "")
    assert max(map(width_of, out.splitlines())) <= 80
    if lang == "zh":
        assert not {"waiting", "running", "ended", "command"} & set(out.split())


def test_a_copied_script_and_a_message_that_did_not_arrive_are_told(ask: Ask, full: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    full.put("94", "done", code=0, spec={"command": ("./train.sh",), "script": "0:0123456789abcdef-train.sh"})
    monkeypatch.setattr(full, "undelivered", lambda job: "refused" if job == "94" else "", raising=False)
    english = "its script as it was when it was submitted", "notice    not delivered: refused"
    for lang, words in (("en", english), ("zh", ("提交时的内容", "未能送达"))):
        out = ask("jobs", "94", "--lang", lang)[1]
        assert "./train.sh" in out
        assert "0123456789abcdef" not in out
        assert all(word in out for word in words)
    (told,) = json.loads(ask("jobs", "94", "--why", "--format", "json")[1])["jobs"]
    assert (told["undelivered"], "script" in told["asked"]) == ("refused", False)
    assert "not delivered" not in ask("jobs", "11")[1]


def test_one_job_with_its_diagnosis_and_what_helps(ask: Ask, full: Pretend) -> None:
    for lang, words in (("en", "Lower the batch size"), ("zh", "减小 batch size")):
        _, out, _ = ask("jobs", "11", "--lang", lang)
        assert "oom-batch-too-large" in out
        assert words in out or lang == "zh"
        assert "75.00 GiB" in out
    full.outputs = {}  # its output is gone: what the queue noted is told
    _, out, _ = ask("jobs", "11")
    assert "The GPU's memory ran out" in out
    assert "oom-batch-too-large: GPU 0 is full" in out
    assert "ongpu rules oom-batch-too-large" in out


def test_one_job_of_which_nothing_is_known_but_its_words(ask: Ask, full: Pretend) -> None:
    _, out, _ = ask("jobs", "9")
    assert "It reached its time limit" in out
    assert out.rstrip().endswith("one\n    two")


def test_a_job_that_never_started_says_after_which_one(ask: Ask, pretend: Pretend) -> None:
    said = Reason("needs-ok", {"job": 38}).json()
    pretend.put("40", "cancelled", spec={"after": (("ok", "38"),)}, ended=1000.0, ending="dependency", said=said)
    pretend.put("41", "cancelled", ended=1000.0, ending="stopped")
    lines = ask("jobs")[1].splitlines()
    assert sum("38 did not end well, and it was to start only after that" in line for line in lines) == 1
    out = ask("jobs", "40")[1]
    assert "Never started: a job that it was to follow did not end well" in out
    assert "38 did not end well" in out
    assert ask("jobs", "41")[1].rstrip().endswith("Stopped on request")


def test_what_is_counted_and_not_enforced_is_called_advisory(ask: Ask, pretend: Pretend) -> None:
    pretend.advisory = {"cpus": ("--cpus is advisory", "--cpus 只是约定")}
    pretend.put("1", "waiting", spec={"cpus": 4, "host_memory": 1024})
    pretend.put("2", "waiting")
    assert "(--cpus is advisory)" in ask("jobs", "1")[1]
    assert "（--cpus 只是约定）" in ask("jobs", "1", "--lang", "zh")[1]
    assert "advisory" not in ask("jobs", "2")[1]


@pytest.mark.parametrize("ending", ["timeout", "idle", "preempted"])
def test_a_signal_of_our_own_is_no_sign_of_memory_that_ran_out(ask: Ask, full: Pretend, ending: str) -> None:
    full.put("92", "failed", started=900.0, ended=1000.0, code=137, ending=ending, attempts=1)
    full.outputs["92"] = [b"at work\nKilled\n"]
    _, out, _ = ask("jobs", "92")
    assert "host-oom" not in out
    assert out.rstrip().endswith("at work\n    Killed")
    full.put("93", "failed", started=900.0, ended=1000.0, code=137, ending="signal", attempts=1)
    full.outputs["93"] = [b"at work\nKilled\n"]
    assert "host-oom" in ask("jobs", "93")[1], "somebody else's is"


def test_binary_output_and_endless_names_stay_within_the_terminal(ask: Ask, full: Pretend) -> None:
    full.outputs["9"] = [b"a" * 500 + b"\n" + bytes(range(1, 256)) * 3]
    spec = {"name": "n" * 300, "command": ("/" + "x" * 300,)}
    full.put("90", "failed", spec=spec, code=1, ending="program", said="y" * 400, started=1.0, ended=2.0)
    full.outputs["90"] = [b"z" * 300]
    for words in ((), ("9",), ("90",), ("--why",), ("--cost",)):
        out = ask("jobs", *words)[1]
        assert max(map(width_of, out.splitlines())) <= 80
    assert "/" + "x" * 300 in ask("jobs", "90")[1].replace("\n", "").replace(" ", "")  # a path is not cut off


def test_last_words_keep_their_indentation(ask: Ask, full: Pretend) -> None:
    full.outputs["9"] = [b"step:\n\tinner\n    deeper\n"]
    assert ask("jobs", "9")[1].rstrip().endswith("    step:\n            inner\n        deeper")


def test_what_the_queue_noted_stands_beside_the_diagnosis(ask: Ask, full: Pretend) -> None:
    noted = "it needed more than is free on a GPU of 80 GiB; the next larger model: H100 NVL, H200, B200 or any other that is larger"
    full.put("11", "failed", started=1.0, ended=2.0, code=1, ending="out-of-memory", slug="oom-batch-too-large", said=noted, attempts=1)
    shown = " ".join(ask("jobs", "11")[1].split())
    assert noted in shown
    assert "75.00 GiB" in shown


def test_earlier_runs_are_told_of(ask: Ask, full: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    from ongpu.lazy import replace

    job = full.put("91", "done", started=900.0, ended=1000.0, code=0, ending="ok", attempts=2, gpus=(UUIDS[1],))
    first = replace(job, state="waiting", started=100.0, ended=400.0, attempts=1, gpus=(UUIDS[5],))
    first = replace(first, code=1, ending="gpu-fault", slug="gpu-fell-off-bus")
    monkeypatch.setattr(full, "runs", lambda name: [first, job], raising=False)
    shown = " ".join(ask("jobs", "91")[1].split())
    assert "before attempt 1; GPU 5; 5m; a GPU was at fault, not the program, code 1; gpu-fell-off-bus" in shown
    assert "attempt 2; " not in shown
    assert "此前 第 1 次；GPU 5；5m；故障在 GPU，不在程序，代码 1" in " ".join(ask("jobs", "91", "--lang", "zh")[1].split())


def test_an_arrays_output_is_that_of_its_index(ask: Ask, full: Pretend) -> None:
    full.put("92", "done", array="91", spec={"index": 2, "output": "/data/out-%a.txt"}, started=1.0, ended=2.0, code=0, ending="ok")
    out = ask("jobs", "92")[1]
    assert "/data/out-2.txt" in out
    assert "of GPU time" not in out


def test_why_it_waits_and_when_it_starts(ask: Ask, full: Pretend) -> None:
    full.cards = full.cards[:4]
    full.put("70", "waiting", spec={"gpus": 4}, said=Reason("behind", {"gpus": 4, "fitting": 0}).json(), submitted=1.0, since=1.0)
    del full.told["18"]
    _, out, _ = ask("jobs", "70")
    assert "the fitting GPUs are held" in out
    assert "expected to start in about 57m" in out
    assert "if 1 before it runs to its limit" in " ".join(out.split())
    assert "预计约 57m 后" in ask("jobs", "70", "--lang", "zh")[1]


def test_an_array_of_which_only_the_first_are_listed_is_not_called_whole(ask: Ask, pretend: Pretend) -> None:
    for n in range(200):
        pretend.put(str(n + 2), "waiting", array="1", spec={"index": n, "name": "big"})
    out = ask("jobs")[1]
    assert "big[0-49,...]" in out
    assert "... and 150 more (--all)" in out
    assert "big[0-199]" in ask("jobs", "--all")[1]
    assert "big[0-199]" in ask("jobs", "1")[1]


def test_what_it_cost(ask: Ask, full: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = ask("jobs", "--cost")
    assert "no prices" in out
    assert next(line for line in out.splitlines() if "llama.py" in line).split() == ["17", "llama.py", "ann", "8.2", "-", "0%", "-"]
    monkeypatch.setattr("ongpu.queue.config.load", lambda: Config(cost=Cost(gpu_hour={"a100": 2.0, "": 1.0}, kwh=0.5, currency="EUR")))
    _, out, _ = ask("jobs", "--cost")
    cells = next(line for line in out.splitlines() if "prep.py" in line).split()
    assert cells == ["12", "prep.py", "ann", "0.19", "50%", "0%", "1.00", "0.89"]
    assert "EUR" in out
    assert json.loads(ask("jobs", "12", "--cost", "--format", "json")[1])["jobs"][0]["cost"] == pytest.approx(0.8889, abs=1e-3)


def test_json_holds_all_but_secrets(ask: Ask, full: Pretend) -> None:
    full.put("80", "waiting", spec={"environ": {"TOKEN": "s3cret"}, "limit": 60.0}, said=Reason("behind", {"gpus": 1, "fitting": 0}).json())
    _, out, _ = ask("jobs", "--all", "--why", "--format", "json")
    told = json.loads(out)
    assert "s3cret" not in out
    assert told["schema"] == 1
    by_id = {job["id"]: job for job in told["jobs"]}
    assert by_id["80"]["asked"] == {"command": ["python", "train.py"], "name": "train.py", "limit": 60.0}
    assert by_id["80"]["said_zh"].startswith("符合要求")
    assert by_id["20"]["expected"]["kind"] == "never"  # one of eight is drained
    assert by_id["80"]["expected"]["kind"] in ("at", "unknown")
    assert "expected" not in json.loads(ask("jobs", "80", "--format", "json")[1])["jobs"][0]
    assert by_id["20"]["why"] == [{"en": "the fitting GPUs are held", "zh": "GPU 被占用"}]
    assert by_id["11"]["slug"] == "oom-batch-too-large"
    assert len(told["gpus"]) == 8


def test_which_jobs(ask: Ask, full: Pretend) -> None:
    assert ask("jobs", "99")[0::2] == (1, "ongpu: no such job: 99\n")
    assert ask("jobs", "99", "--lang", "zh")[2] == "ongpu: 没有这个作业：99\n"
    assert ask("jobs", "\x1b[2J")[0] == 2
    out = ask("jobs", "--state", "failed")[1]
    assert ("train.py" in out, "llama.py" in out) == (True, False)
    held = ask("jobs", "--state", "held")[1]  # the others that wait are neither counted nor offered
    assert ("waiting (1)" in held, "more (--all)" in held) == (True, False)
    assert json.loads(ask("jobs", "--state", "held", "--format", "json")[1])["counts"] == {"held": 1}
    assert "no jobs" in ask("jobs", "--user", "nobody")[1]
    assert len(ask("jobs", "21", "12")[1].splitlines()) > 4
    assert ask("jobs", "--state", "dead")[0] == 2


def test_names_cannot_command_the_terminal(ask: Ask, pretend: Pretend) -> None:
    pretend.put("1", "waiting", spec={"name": "a\x1b]0;x\x07b\nc", "command": ("\x1b[2J",)}, said="\x1b[31mred")
    for words in ((), ("1",), ("--cost", "--all"), ("--why",)):
        assert "\x1b" not in ask("jobs", *words)[1]


def test_without_a_terminal_watch_prints_once(ask: Ask, full: Pretend) -> None:
    assert ask("jobs", "--watch")[:1] == (0,)


def test_watch_redraws_until_ctrl_c_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    source = (
        "import sys; sys.path.insert(0, sys.argv.pop(1))\nfrom pretend import Pretend\nfrom ongpu.queue import engines\nmade = Pretend()\n"
        "made.put('1', 'running')\nengines.engine = lambda name, config: made\nfrom ongpu.fronts.cli import run\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "ONGPU_QUEUE_CONFIG": "/dev/null", "LC_ALL": "C.UTF-8"}
    here = str(Path(__file__).parent)
    with subprocess.Popen(
        [sys.executable, "-c", source, here, "jobs", "--watch"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environ,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        seen = b""
        try:
            end = time.monotonic() + 20
            while seen.count(b"train.py") < 2 and time.monotonic() < end:
                seen += os.read(ours, 4096)
            process.send_signal(signal.SIGINT)
            while b"\x1b[?1049l" not in seen and time.monotonic() < end:
                seen += os.read(ours, 4096)
            assert process.wait(10) == 0
        finally:
            process.kill()
            os.close(ours)
    assert seen.startswith(b"\x1b[?1049h\x1b[?25l")
    assert seen.endswith(b"\x1b[?25h\x1b[?1049l")
    assert b"Traceback" not in seen


@given(st.text(max_size=60), st.integers(1, 40))
def test_cells_are_as_wide_as_they_are_to_be(text: str, width: int) -> None:
    assert width_of(cut(text, width)) <= width
    assert width_of(left(text, width)) == width_of(right(text, width)) == width


def test_a_hundred_thousand_jobs_are_listed_in_time(ask: Ask, pretend: Pretend) -> None:
    from ongpu.lazy import replace

    one = pretend.put("1", "waiting")
    for number in range(2, 5000):
        pretend.told[str(number)] = replace(one, id=str(number))
    begin = time.process_time()
    assert len(ask("jobs")[1].splitlines()) < 20
    assert time.process_time() - begin < 1
