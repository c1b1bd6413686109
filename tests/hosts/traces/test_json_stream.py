import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.hosts.traces.json_stream import Elements

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


class Dribble:
    """Gives a few bytes at a time, whatever is asked for."""

    def __init__(self, data: bytes, size: int) -> None:
        self.file, self.size = io.BytesIO(data), size

    def read(self, size: int) -> bytes:
        return self.file.read(min(size, self.size))


def elements(data: bytes, size: int = 1 << 20, nested: frozenset[str] = frozenset()) -> tuple[list[tuple[str, Any]], Elements]:
    stream = Elements(Dribble(data, size).read, nested)
    return list(stream), stream


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.lists(VALUES, max_size=6), st.integers(1, 40), st.sampled_from([None, 1]))
def test_an_array_in_pieces_is_the_array(values: list[Any], size: int, indent: int | None) -> None:
    found, stream = elements(json.dumps({"a": 1, "traceEvents": values, "z": {"b": []}}, indent=indent).encode(), size)
    assert [value for key, value in found if key == "traceEvents"] == values
    assert stream.trouble is None
    assert [key for key, _ in found if key != "traceEvents"] == ["a", "z"]


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.lists(st.fixed_dictionaries({"ph": st.just("X"), "ts": st.integers()}), min_size=1, max_size=6), st.data())
def test_what_is_cut_off_gives_the_elements_before(values: list[Any], data: st.DataObject) -> None:
    text = json.dumps({"traceEvents": values}).encode()
    cut = data.draw(st.integers(1, len(text) - 1))
    found, stream = elements(text[:cut])
    assert [value for _, value in found] == values[: len(found)]
    assert stream.trouble is not None


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\ a1-eE.tfn\n', max_size=120).map(str.encode), st.integers(1, 30))
def test_no_bytes_make_it_crash(data: bytes, size: int) -> None:
    elements(data, size)


@pytest.mark.parametrize("deep", [b"[" * 200_000, b'{"traceEvents": [' + b'{"a":' * 200_000])
def test_deep_nesting_ends_it(deep: bytes) -> None:
    _, stream = elements(deep)
    assert stream.trouble


def test_an_element_without_end_is_given_up() -> None:
    _, stream = elements(b'{"traceEvents": ["' + b"a" * (20 << 20))
    assert stream.trouble == ("an element is too large", "单个元素过大")


def test_a_damaged_element_is_skipped_and_the_rest_read() -> None:
    found, stream = elements(b'{"traceEvents": [{"ph": "X", "ts": 1}, {"ph": "X", "ts": }, {"ph": "X", "ts": 3}]}')
    assert [value["ts"] for _, value in found] == [1, 3]
    assert (stream.damaged, stream.trouble) == (1, None)


@pytest.mark.parametrize(
    "bad", [r'{"ph": "X", "args": {"occupancy": inf, "a": [-nan]}, "ts": 2}', r'{"ph": "X", "name": "C:\Windows\x", "ts": 2}']
)
def test_what_profilers_write_beside_json_is_mended(bad: str) -> None:
    found, stream = elements(f'{{"traceEvents": [{{"ph": "X", "ts": 1}}, {bad}, {{"ph": "X", "ts": 3}}]}}'.encode())
    assert [value["ts"] for _, value in found] == [1, 2, 3]
    assert stream.damaged == 0


def test_nan_is_no_number() -> None:
    found, _ = elements(b'{"traceEvents": [{"ts": NaN, "dur": Infinity}]}')
    assert found == [("traceEvents", {"ts": None, "dur": None})]


def test_arrays_in_an_array_are_given_element_by_element() -> None:
    found, stream = elements(b'{"device_traces": [[{"a": 1}, {"a": 2}], [], [{"a": 3}]], "x": 1}', 7, frozenset({"device_traces"}))
    assert found == [("device_traces", {"a": 1}), ("device_traces", {"a": 2}), ("device_traces", {"a": 3}), ("x", 1)]
    assert stream.trouble is None
