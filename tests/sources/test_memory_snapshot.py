import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from parts import profiles

from ongpu.facts.profile import Allocations, Held, gib
from ongpu.hosts.pasted import read_bytes
from ongpu.model import Evidence
from ongpu.sources import memory_snapshot


def read(text: str) -> list[Allocations]:
    return [fact for fact in memory_snapshot.read(Evidence("memory_snapshot", text, "s.pickle")) if isinstance(fact, Allocations)]


def of(**settings: Any) -> Held:
    return read(read_bytes(profiles.pickled(profiles.snapshot(**settings)), "s.pickle")[0].text)[0].gpus[0]


def test_what_a_snapshot_tells() -> None:
    held = of(keep=True, oom=1 << 30)
    assert (held.index, held.segments, held.expandable) == (0, 1, False)
    assert gib(held.peak) == "1.66 GiB"
    assert held.owners[0].place == "project/train.py:52 log"
    assert held.kept[0].place == "project/train.py:52 log"
    assert len(held.lowest) == 8
    assert held.refusals[0].bytes == 1 << 30
    assert held.peak_ref


def test_memory_in_use_shows_a_gpu_at_work() -> None:
    (fact,) = read(read_bytes(profiles.pickled(profiles.snapshot()), "s")[0].text)
    assert fact.working()
    assert not read('{"snapshot": 1}\n{"memory": 0, "reserved": 0}')[0].working()


ODD = (
    st.none()
    | st.booleans()
    | st.integers(-2, 1 << 70)
    | st.floats()
    | st.text(max_size=4)
    | st.lists(st.integers() | st.none(), max_size=2)
)
KEYS = ["snapshot", "memory", "peak", "owner", "kept", "oom", "growth", "gpu", "bytes", "blocks", "lowest", "where", "entries", "idle"]


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), ODD, max_size=5).map(json.dumps) | st.text(max_size=20), max_size=10))
def test_no_text_makes_it_crash(lines: list[str]) -> None:
    for fact in read("\n".join(['{"snapshot": 1}', '{"memory": 0, "reserved": 1}', *lines])):
        assert fact.working() is not None
