import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from parts import profiles

from ongpu.facts.profile import GpuTime, Profile
from ongpu.hosts.pasted import read_bytes
from ongpu.model import Evidence
from ongpu.sources import profile


def read(text: str) -> list[Profile]:
    return [fact for fact in profile.read(Evidence("profile", text, "t.json")) if isinstance(fact, Profile)]


def of(**settings: Any) -> GpuTime:
    return read(read_bytes(profiles.text(profiles.kineto(**settings)), "t.json")[0].text)[0].gpus[0]


def test_what_a_trace_tells() -> None:
    gpu = of(load=20_000, sync=20, stacks=True)
    assert (gpu.trace, gpu.index, gpu.steps, gpu.kernels) == ("t.json", 0, 4, 240)
    assert gpu.card
    assert (gpu.card.name, gpu.card.capability) == ("NVIDIA A100-SXM4-40GB", "8.0")
    assert gpu.wait("loading") > 60
    assert gpu.loading_at_most is not None
    assert gpu.syncs[0].where == "train.py(45): step"
    assert gpu.of_kernels("tensor-core") == 50
    assert gpu.why("loading")[1].quote.startswith('{"idle": "loading"')


def test_several_traces_are_joined() -> None:
    first, second = (read(read_bytes(profiles.text(profiles.kineto(kernels=n)), f"rank{n}.json")[0].text)[0] for n in (5, 6))
    assert [gpu.kernels for gpu in first.join(second).gpus] == [20, 24]


def test_a_trace_without_a_gpu() -> None:
    trace = profiles.kineto()
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event.get("cat") != "kernel"]
    (fact,) = read(read_bytes(profiles.text(trace), "t.json")[0].text)
    assert fact.gpus == ()
    assert fact.without_gpu
    assert not fact.working()


ODD = st.none() | st.booleans() | st.integers(-2, 1 << 70) | st.floats() | st.text(max_size=4) | st.lists(st.integers(), max_size=2)
KEYS = [
    "profile",
    "card",
    "gpu",
    "span_ms",
    "busy_ms",
    "idle",
    "percent",
    "family",
    "ms",
    "kernel",
    "copy",
    "sync",
    "loading",
    "calls",
    "where",
    "kernels",
    "steps",
]


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), ODD, max_size=5).map(json.dumps) | st.text(max_size=20), max_size=10))
def test_no_text_makes_it_crash(lines: list[str]) -> None:
    for fact in read("\n".join(['{"profile": 1}', '{"gpu": 0, "span_ms": 1}', *lines])):
        for gpu in fact.gpus:
            assert gpu.share(gpu.busy) is not None
