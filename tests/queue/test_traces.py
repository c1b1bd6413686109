import json
from itertools import repeat
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ongpu.queue.traces import MAX_LINE, TraceError, parse, read

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,11cb48\n2017-10-09 06:13:03,2951.0,8,1.0,6214e9\n"
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "p0,12000,16384,1,460,,LS,Running,0,1000,100\np1,1,1,0,0,,LS,Running,0,10,0\np2,1,1,2,1000,V100M16|V100M32,BE,Failed,5,,\n"
)
SACCT = (
    "JobID|User|Account|Submit|Elapsed|ElapsedRaw|AllocTRES|TimelimitRaw|State\n"
    "12|ann|vision|2026-11-30T10:00:00|1-02:03:04||billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1|1440|COMPLETED\n"
    "12.batch|||2026-11-30T10:00:00|1-02:03:04||cpu=8,gres/gpu=4|||\n"
    "13_7|bob|nlp|2026-11-30T10:00:01|00:10:00|600|cpu=1,gres/gpu:h100=2|UNLIMITED|CANCELLED by 1001\n"
    "14|bob|nlp|2026-11-30T10:00:02|00:10:00|600|cpu=1||COMPLETED\n"
    "15|bob|nlp|2026-11-30T10:00:02|00:10:00|600|gres/gpu=1||RUNNING\n"
)
HISTORY = "\n".join(
    json.dumps(row)
    for row in (
        {"id": "a", "submitted": 10, "started": 20, "ended": 50, "gpus": 2, "checkpoint": True, "limit": 60, "memory": 40960},
        {"id": "b", "submitted": 11.5, "duration": 7, "gpus": 1},
        {"id": "c", "submitted": 12, "gpus": 1},
    )
)


def test_philly() -> None:
    trace = parse(PHILLY.splitlines(), None)
    assert [(t.duration, t.gpus, t.project) for t in trace.tasks] == [(2951.0, 8, "6214e9"), (66.0, 1, "11cb48")]
    assert trace.groups == {"11cb48": 1, "6214e9": 1}
    assert len(parse(PHILLY.splitlines(), "11cb48").tasks) == 1
    with pytest.raises(TraceError, match="it has: 11cb48"):
        parse(PHILLY.splitlines(), "other")


def test_openb() -> None:
    trace = parse(OPENB.splitlines())
    assert [(t.submitted, t.duration, t.gpus) for t in trace.tasks] == [(0.0, 900.0, 1)]
    assert trace.skipped == 2


def test_sacct() -> None:
    trace = parse(SACCT.splitlines())
    assert [(t.duration, t.gpus, t.user, t.project, t.limit) for t in trace.tasks] == [
        (93784.0, 4, "ann", "vision", 86400.0),
        (600.0, 2, "bob", "nlp", None),
    ]
    assert trace.skipped == 3


def test_history() -> None:
    trace = parse(HISTORY.splitlines())
    got = [(t.duration, t.gpus, t.memory, t.checkpoint, t.limit) for t in trace.tasks]
    assert got == [(30, 2, 40960, True, 60), (7, 1, 0, False, None)]
    assert trace.skipped == 1


@pytest.mark.parametrize("cell", ["nan", "inf", "-5", "1e400", "0", "x", ""])
def test_figures_that_cannot_be_true_are_skipped(cell: str) -> None:
    lines = [*PHILLY.splitlines(), f"2017-10-09 07:01:55,{cell},1,1,11cb48", f"{cell or 'x'},5,-1,1,11cb48", f"2017-10-09,5,{cell},1,a"]
    trace = parse(lines)
    assert len(trace.tasks) == 2
    assert trace.skipped == 3


@example("{")
@example("[" * 100_000)
@example("timestamp,duration,num_gpus\n2017,9e999,99999999999999999999999")
@given(st.text(max_size=400))
def test_any_text_is_read_or_refused(text: str) -> None:
    for head in ("", PHILLY, OPENB, SACCT, HISTORY + "\n"):
        try:
            trace = parse((head + text).splitlines())
        except TraceError:
            continue
        assert all(t.duration > 0 and t.gpus > 0 for t in trace.tasks)


CELLS = st.one_of(st.text(max_size=10), st.integers(), st.floats(), st.none(), st.lists(st.integers(), max_size=2))
NAMES = st.sampled_from(["id", "submitted", "duration", "started", "ended", "gpus", "memory", "limit", "user"])


@given(st.dictionaries(NAMES, CELLS))
def test_any_history_is_read_or_skipped(row: dict[str, object]) -> None:
    lines = [*HISTORY.splitlines(), json.dumps(row)]
    assert len(parse(lines).tasks) in (2, 3)


@pytest.mark.parametrize("memory", [-1, (1 << 30) + 1, 1e300])
def test_memory_that_no_gpu_has_is_skipped(memory: float) -> None:
    trace = parse([*HISTORY.splitlines(), json.dumps({"id": "z", "submitted": 1, "duration": 7, "gpus": 1, "memory": memory})])
    assert (len(trace.tasks), trace.skipped) == (2, 2)


@pytest.mark.parametrize(("minutes", "limit"), [("60", 3600.0), ("0", None), ("9" * 400, None), ("²", None), ("Partition_Limit", None)])
def test_a_limit_of_slurms_that_says_nothing_is_none(minutes: str, limit: float | None) -> None:
    tasks = parse([*SACCT.splitlines(), f"16|eve|x|2026-11-30T10:00:00|00:10:00|600|gres/gpu=1|{minutes}|COMPLETED"]).tasks
    assert next(task.limit for task in tasks if task.user == "eve") == limit


def test_what_is_suspended_has_not_ended() -> None:
    with pytest.raises(TraceError, match="no finished"):
        parse([SACCT.splitlines()[0], "16|eve|x|2026-11-30T10:00:00|00:10:00|600|gres/gpu=1|60|SUSPENDED"])


def test_a_line_or_blank_lines_without_end_are_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ongpu.queue.traces.MAX_REST", 10 * MAX_LINE)
    monkeypatch.setattr("ongpu.queue.traces.MAX_LINES", 1000)
    path = tmp_path / "trace.csv"
    path.write_text(PHILLY + "9" * (20 * MAX_LINE))
    with pytest.raises(TraceError, match="has no end"):
        read(path)
    with pytest.raises(TraceError, match="not a trace"):
        parse(repeat("\n"))


def test_a_line_without_end_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(PHILLY + "9" * (5 * MAX_LINE) + "\n" + PHILLY.splitlines()[1] + "\n")
    trace = read(path)
    assert len(trace.tasks) == 3


def test_names_hold_no_control_characters() -> None:
    row = json.dumps({"id": "a\x1b[2J" + "x" * 500, "submitted": 1, "duration": 7, "gpus": 1, "user": "\x07ann"})
    (task,) = parse([row]).tasks
    assert task.user == "ann"
    assert "\x1b" not in task.id
    assert len(task.id) < 80


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(TraceError, match=path.name):
            read(path)
    (tmp_path / "empty").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match="not a trace"):
        read(tmp_path / "empty")
