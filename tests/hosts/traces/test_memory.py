import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parts import profiles

from ongpu.hosts.traces import memory
from ongpu.hosts.traces.json_stream import Elements

MIB = 1 << 20


def rows(snapshot: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in memory.lines(memory.of_object(snapshot))]


def one(found: list[dict[str, Any]], key: str) -> dict[str, Any]:
    return next(row for row in found if key in row)


def test_peak_and_its_owners() -> None:
    found = rows(profiles.snapshot())
    assert one(found, "peak")["bytes"] == 500 * MIB
    owners = {row["owner"]: row["bytes"] // MIB for row in found if "owner" in row}
    assert owners == {"project/train.py:30 forward": 300, "project/train.py:10 __init__": 200}
    assert not any("growth" in row or "oom" in row for row in found)


def test_what_was_there_before_the_record_counts() -> None:
    snapshot = profiles.snapshot()
    snapshot["device_traces"][0] = snapshot["device_traces"][0][5:]  # the weights and the first blocks are no longer in it
    found = rows(snapshot)
    assert one(found, "peak")["bytes"] == 500 * MIB
    owners = {row["owner"] for row in found if "owner" in row}
    assert memory.NO_FRAME in owners


def test_growth_and_who_keeps_it() -> None:
    found = rows(profiles.snapshot(keep=True))
    lowest = one(found, "growth")["lowest"]
    assert lowest == sorted(lowest)
    assert one(found, "kept")["kept"] == "project/train.py:52 log"
    assert not any("growth" in row for row in rows(profiles.snapshot()))


def test_a_refused_request() -> None:
    row = one(rows(profiles.snapshot(oom=5 << 30)), "oom")
    assert (row["bytes"], row["device_free"], row["where"]) == (5 << 30, 100 * MIB, "project/train.py:30 forward")
    assert row["largest_idle"] == 0


def test_idle_pieces() -> None:
    row = one(rows(profiles.snapshot(scattered=True)), "memory")
    assert (row["idle"], row["largest_idle"]) == (800 * MIB, 2 * MIB)


def test_a_snapshot_without_history_is_what_it_holds() -> None:
    found = rows({"segments": profiles.snapshot()["segments"]})
    assert one(found, "peak")["bytes"] == 200 * MIB
    assert one(found, "owner")["owner"] == "project/train.py:10 __init__"


def test_json_and_pickle_tell_the_same() -> None:
    snapshot = profiles.snapshot(keep=True)
    stream = io.BytesIO(json.dumps(snapshot).encode())
    devices = memory.read_json(Elements(stream.read, frozenset({"device_traces"})))
    assert list(memory.lines(devices)) == list(memory.lines(memory.of_object(snapshot)))


def test_two_devices_are_kept_apart() -> None:
    snapshot = profiles.snapshot()
    snapshot["segments"].append({**snapshot["segments"][0], "device": 1})
    snapshot["device_traces"].append(profiles.snapshot(keep=True)["device_traces"][0])
    found = rows(snapshot)
    assert [row["peak"] for row in found if "peak" in row] == [0, 1]
    assert [row["growth"] for row in found if "growth" in row] == [1]
    stream = io.BytesIO(json.dumps(snapshot).encode())
    assert list(memory.lines(memory.read_json(Elements(stream.read, frozenset({"device_traces"}))))) == [json.dumps(row) for row in found]


ODD = st.none() | st.integers(-3, 1 << 70) | st.floats() | st.text(max_size=6) | st.lists(st.integers(), max_size=2)
FRAMES = st.lists(st.fixed_dictionaries({}, optional={"filename": st.just("a.py") | ODD, "line": ODD, "name": ODD}) | ODD, max_size=3)
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "action": st.sampled_from(["alloc", "free_completed", "oom"]) | ODD,
        "addr": st.integers(0, 3) | ODD,
        "size": st.integers(0, 99) | ODD,
        "frames": FRAMES | ODD,
    },
)
BLOCK = st.fixed_dictionaries(
    {}, optional={"size": ODD, "state": st.just("active_allocated") | ODD, "address": ODD, "frames": FRAMES, "history": ODD}
)
SNAPSHOT = st.fixed_dictionaries(
    {},
    optional={
        "segments": st.lists(
            st.fixed_dictionaries({"blocks": st.lists(BLOCK, max_size=3) | ODD}, optional={"device": ODD, "total_size": ODD}) | ODD,
            max_size=3,
        )
        | ODD,
        "device_traces": st.lists(st.lists(ENTRY | ODD, max_size=6) | ODD, max_size=3) | ODD,
    },
)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(SNAPSHOT | ODD)
def test_no_data_make_it_crash(snapshot: Any) -> None:
    for line in memory.lines(memory.of_object(snapshot)):
        json.loads(line, parse_constant=lambda name: pytest.fail(name))


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("/home/u/project/train.py", "project/train.py:7 f"),
        ("C:\\Users\\u\\project\\train.py", "project/train.py:7 f"),
        ("train.py", "train.py:7 f"),
    ],
)
def test_owners_are_told_without_their_whole_path(file: str, owner: str) -> None:
    assert memory.owner(profiles.frames(7, "f", file)) == owner
