import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue import asked, job, words
from ongpu.queue.job import Card, Spec, Told
from ongpu.queue.reasons import WORDS, Reason


def told(**values: object) -> Told:
    return Told(**{"id": "1", "spec": Spec(command=("python", "x.py")), "state": "waiting", **values})  # type: ignore[arg-type]


def test_every_state_and_ending_has_its_words() -> None:
    assert set(words.STATES) == {*job.LIVE, *job.OVER}
    from ongpu.queue import run

    endings = {run.OK, run.GPU_FAULT, run.OUT_OF_MEMORY, run.HOST_MEMORY, run.PROGRAM, run.SIGNAL, run.STOPPED, job.TIMEOUT, job.IDLE,
               job.PREEMPTED, job.VANISHED, job.REBOOT, job.NOT_STARTED, job.DEPENDENCY}  # fmt: skip
    assert set(words.ENDINGS) == endings


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-3, "0s"), (59.4, "59s"), (60, "1m"), (7400, "2h03m"), (86399, "23h59m"), (86400, "1d00h"), (300_000, "3d11h")]
)
def test_lengths_of_time_fit_a_column(seconds: float, shown: str) -> None:
    assert words.brief(seconds) == shown


@given(st.sets(st.integers(0, 3000), min_size=1))
def test_ranges_are_read_back_by_array(numbers: set[int]) -> None:
    assert asked.array(words.ranges(numbers))[0] == tuple(sorted(numbers))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "train.py", "--lr", "3"), "train.py"), (("python", "-m", "pkg.train"), "pkg.train"),
        (("/usr/bin/nvidia-smi",), "nvidia-smi"),
        (("torchrun", "--nproc_per_node", "8", "a/b/train.py"), "train.py"), (("bash", "job.sh"), "job.sh"), ((), ""),
    ],
)  # fmt: skip
def test_a_job_is_called_after_its_script(command: tuple[str, ...], name: str) -> None:
    assert words.called(command) == name


def test_why_a_job_waits_is_told_in_both_languages() -> None:
    waits = told(said=Reason("behind", {"gpus": 2, "fitting": 1}).json())
    assert words.because(waits, "en") == "the fitting GPUs are held by jobs that come before it: 1 of 2 are free"
    assert words.because(waits, "zh").startswith("符合要求的 GPU")
    assert words.because(told(said="(Resources)"), "zh") == "(Resources)"
    assert words.because(told(said='["of-next-year", {}]'), "en") == ""


@given(st.text(max_size=300))
def test_what_a_job_is_called_is_one_line_that_a_terminal_does_not_obey(text: str) -> None:
    shown = words.title(Spec(command=("x", text), name=text, index=3))
    assert shown.isprintable()
    assert words.plain(text).isprintable()


def test_the_gpus_in_one_line() -> None:
    cards = [
        Card(id="a", jobs=("1",)),
        Card(id="b", index=1, state="drained", slug="gpu-fell-off-bus"),
        Card(id="c", index=2, foreign=("x",)),
    ]
    assert words.cards(cards, "en") == "3 GPUs: 1 busy, 1 drained (GPU 1: gpu-fell-off-bus), 1 used by others"
    assert words.cards(cards, "zh") == "3 块 GPU：1 块忙，1 块已停用（GPU 1：gpu-fell-off-bus），1 块他人占用"
    assert words.cards([], "en") == ""
    assert words.cards(cards[:1], "en") == "1 GPU: 1 busy"


def test_all_that_was_asked_is_told_in_both_languages() -> None:
    spec = Spec(
        command=("x",), gpus=2, memory=20480, model="A100", capability=(8, 0), limit=3600.0, cpus=4, host_memory=512, priority=2, retries=2,
        after=(("ok", "7"),), reservation="lab", checkpoint="SIGUSR1", idle=60.0,
    )  # fmt: skip
    english = (
        "2 GPUs, 20 GiB each, model A100, compute capability 8.0 or newer, at most 1h00m, 4 CPUs, 512 MiB of RAM, priority +2, after 7, "
    )
    assert ", ".join(words.asked(spec, "en")) == english + "reservation lab, up to 2 retries, saves its state at SIGUSR1, idle at most 1m"
    assert len(words.asked(spec, "zh")) == len(words.asked(spec, "en"))
    assert words.asked(Spec(command=("x",), share=True, memory=8192), "en") == ["a part of 1 GPU", "8 GiB of memory"]
    assert words.asked(Spec(command=("x",), gpus=0), "zh") == ["不用 GPU"]


@pytest.mark.parametrize("name", [name for name in WORDS if name != "said"])
def test_reasons_count_as_people_do(name: str) -> None:
    fields = {field for _, field, _, _ in string.Formatter().parse(WORDS[name][0]) if field}
    one = Reason(name, dict.fromkeys(fields, 1)).text("en")
    assert not re.search(r"\b1 (?:[a-z]+ ){0,3}(?:GPUs|CPUs|jobs)\b", one), one
    assert "1 GPU are" not in one


def test_reasons_tell_memory_as_it_is_typed() -> None:
    reason = Reason("host-memory-never", {"memory": 9999 * 1024, "total": 24_105})
    assert reason.text("en") == "it asks for 9999 GiB of host memory; this machine gives out 23.54 GiB"
    assert reason.text("zh") == "它要 9999 GiB 主机内存；本机共可分配 23.54 GiB"
    impossible = Reason("impossible", {"gpus": 1, "memory": 204_800, "fitting": 0}).text("en")
    assert impossible.startswith("it asks for 1 GPU of 200 GiB; only 0 here are")
    assert Reason("cpus", {"cpus": 1, "free": 0, "total": 2}).text("en") == (
        "it asks for 1 CPU; 0 of 2 are left, as jobs asked for them (advisory)"
    )
    assert "lots" in Reason("host-memory", {"memory": "lots", "free": "?", "total": None}).text("en")  # of a newer ongpu
