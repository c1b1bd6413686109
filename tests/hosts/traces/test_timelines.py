import io
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parts import profiles

from ongpu.hosts.traces import chrome, digest
from ongpu.hosts.traces.attribution import merged, without
from ongpu.hosts.traces.timeline import Timeline


def rows(trace: Any) -> list[dict[str, Any]]:
    timeline, events, _ = chrome.read(io.BytesIO(profiles.text(trace)).read)
    return [json.loads(line) for line in digest.lines(timeline, events.tool)]


def gpu(found: list[dict[str, Any]]) -> dict[str, Any]:
    return next(row for row in found if "span_ms" in row)


def idle(found: list[dict[str, Any]]) -> dict[str, float]:
    return {row["idle"]: row["percent"] for row in found if "idle" in row}


INTERVALS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 9)).map(lambda pair: (float(pair[0]), float(pair[0] + pair[1]))), max_size=12
)


def points(spans: Any) -> set[int]:
    return {n for start, end in spans for n in range(int(start), int(end))}


@settings(derandomize=True, max_examples=200, deadline=None)
@given(INTERVALS, INTERVALS)
def test_unions_and_differences_of_intervals(one: list[Any], other: list[Any]) -> None:
    first, second = list(merged(sorted(one))), list(merged(sorted(other)))
    assert points(first) == points(one)
    assert all(a[1] < b[0] for a, b in pairwise(first))
    assert points(without(first, second)) == points(one) - points(other)


def test_busy_and_idle_make_up_the_whole() -> None:
    found = rows(profiles.kineto(load=3000, sync=7, kernel=20, pause=2000))
    row = gpu(found)
    waited = sum(r["ms"] for r in found if "idle" in r)
    assert row["busy_ms"] + waited == pytest.approx(row["span_ms"], abs=0.01)


def test_a_busy_gpu_waits_for_nothing() -> None:
    found = rows(profiles.kineto())
    row = gpu(found)
    assert row["busy_ms"] / row["span_ms"] > 0.99
    assert row["kernels"] == 240
    assert row["step_ms"] == pytest.approx(6.0, rel=0.02)


@pytest.mark.parametrize(
    ("settings", "cause", "least"),
    [
        ({"load": 20_000.0}, "loading", 70),
        ({"sync": 1, "kernel": 30.0}, "sync", 45),
        ({"kernel": 3.0}, "launch", 70),
        ({"pause": 20_000.0}, "code", 70),
    ],
)
def test_the_cause_of_idle_time_is_named(settings: dict[str, Any], cause: str, least: float) -> None:
    found = idle(rows(profiles.kineto(**settings)))
    assert found[cause] >= least
    assert sum(percent for other, percent in found.items() if other != cause) < 5


def test_loading_that_is_hidden_promises_nothing() -> None:
    """The loader is waited for, but the GPU has work meanwhile: a step could at most lose its idle time."""
    found = rows(profiles.kineto(steps=10, load=2000))
    loading = next(row for row in found if "loading" in row)
    assert loading["ms"] == pytest.approx(20, abs=0.1)
    assert loading["at_most_percent"] < 5


def test_the_ceiling_of_loading_holds_in_the_model() -> None:
    """Without loading the modelled step really takes no less than what is promised at most."""
    with_, without_ = gpu(rows(profiles.kineto(load=9000))), gpu(rows(profiles.kineto()))
    loading = next(row for row in rows(profiles.kineto(load=9000)) if "loading" in row)
    saved = 100 * (1 - without_["span_ms"] / with_["span_ms"])
    assert saved <= loading["at_most_percent"] + 0.5
    assert saved > loading["at_most_percent"] - 3


def test_syncs_are_told_with_operator_and_frame() -> None:
    found = [row for row in rows(profiles.kineto(sync=5, stacks=True)) if "sync" in row]
    assert found[0]["sync"] == "aten::item"
    assert found[0]["where"] == "train.py(45): step"
    assert found[0]["calls"] == 48


def test_collectives_alone_and_hidden() -> None:
    row = gpu(rows(profiles.kineto(collective=3000)))
    assert row["collective_ms"] == pytest.approx(12)
    assert row["collective_alone_ms"] == pytest.approx(12)
    trace = profiles.kineto()
    first = next(e for e in trace["traceEvents"] if e.get("cat") == "kernel")
    trace["traceEvents"].append({**first, "name": profiles.NCCL, "tid": 9, "dur": 1500.0})
    row = gpu(rows(trace))
    assert (row["collective_ms"], row["collective_alone_ms"]) == (1.5, 0.0)


def test_families_of_kernels() -> None:
    found = {
        row["family"]: row["kernels"]
        for row in rows(profiles.kineto(names=(profiles.SGEMM, profiles.HMMA, profiles.ELEMENTWISE)))
        if "family" in row
    }
    assert found == {"plain-matmul": 80, "tensor-core": 80, "other": 80}


def test_jax_traces_count_streams_and_not_the_lines_made_from_them() -> None:
    found = rows(profiles.jax())
    assert found[0]["tool"] == "jax"
    assert gpu(found)["kernels"] == 50
    assert idle(found)["launch"] > 50


def test_order_of_events_does_not_matter() -> None:
    trace = profiles.kineto(load=3000, sync=9)
    turned = {**trace, "traceEvents": trace["traceEvents"][::-1]}
    assert idle(rows(trace)) == idle(rows(turned))
    assert gpu(rows(trace)) == gpu(rows(turned))


def test_begun_and_ended_events_are_one() -> None:
    events = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "Stream #2"}},
        {"ph": "B", "pid": 1, "tid": 2, "ts": 5, "name": "k"},
        {"ph": "E", "pid": 1, "tid": 2, "ts": 25},
    ]
    assert gpu(rows(events))["busy_ms"] == 0.02


ODD = (
    st.none()
    | st.booleans()
    | st.integers(-5, 1 << 70)
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.integers(), max_size=2)
    | st.just({"device": -1})
)
CATEGORIES = ["kernel", "cpu_op", "cuda_runtime", "gpu_memcpy", "user_annotation", "python_function"]
NAMES = ["cudaStreamSynchronize", "cudaLaunchKernel", "ProfilerStep#1", "aten::item", "process_name", "thread_name", "DataLoader"]
EVENT = st.fixed_dictionaries(
    {},
    optional={
        "ph": st.sampled_from(["X", "B", "E", "M", "i"]) | ODD,
        "cat": st.sampled_from(CATEGORIES) | ODD, "name": st.sampled_from(NAMES) | ODD,
        "ts": st.integers(0, 99) | ODD, "dur": st.integers(0, 30) | ODD, "pid": ODD, "tid": st.integers(0, 2) | st.text(max_size=2),
        "args": st.fixed_dictionaries({}, optional={"correlation": ODD, "device": ODD, "name": ODD, "step_num": ODD}) | ODD,
    },
)  # fmt: skip


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.lists(EVENT | ODD, max_size=14))
def test_no_events_make_it_crash(events: list[Any]) -> None:
    timeline = Timeline()
    reader = chrome.Events(timeline)
    for event in events:
        reader.feed(event)
    for line in digest.lines(timeline, "x"):
        json.loads(line, parse_constant=lambda name: pytest.fail(name))


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from ongpu.hosts.traces import timeline as module

    monkeypatch.setattr(module, "MAX_KEPT", 50)
    timeline, _, _ = chrome.read(io.BytesIO(profiles.text(profiles.kineto(steps=10))).read)
    assert timeline.limited
    assert timeline.kept <= 100
    assert list(digest.lines(timeline, "kineto"))


@pytest.mark.parametrize(
    ("name", "users"),
    [
        ("train.py(45): step", True),
        ("/home/u/project/train.py(45): step", True),
        ("torch/nn/modules/module.py(1500): _call_impl", False),
        ("/opt/env/lib/python3.11/site-packages/timm/models/vit.py(3): forward", False),
        ("threading.py(973): run", False),
        ("<built-in method run_backward>", False),
        ("<string>(1): <module>", False),
    ],
)
def test_frames_of_the_user(name: str, users: bool) -> None:
    assert chrome.is_users(name) is users
