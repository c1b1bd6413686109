import contextlib
import io
import os
import pickle
import struct
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.hosts.traces import pickled
from ongpu.hosts.traces.pickled import Refused

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(inner, inner)
        | st.tuples(inner, inner, inner, inner)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


def load(data: bytes, piece: int = 1 << 30) -> Any:
    stream = io.BytesIO(data)
    return pickled.load(lambda size: stream.read(min(size, piece)))


@settings(derandomize=True, max_examples=200, deadline=None)
@given(VALUES, st.integers(2, 5), st.integers(1, 64))
def test_plain_data_is_what_pickle_would_give(value: Any, protocol: int, piece: int) -> None:
    assert load(pickle.dumps(value, protocol=protocol), piece) == value


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_bytes(protocol: int) -> None:
    assert load(pickle.dumps([b"", b"a" * 300], protocol=protocol)) == [b"", b"a" * 300]


def test_shared_objects_stay_one() -> None:
    one = [1]
    two = load(pickle.dumps([one, one]))
    assert two[0] is two[1]


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.binary(max_size=120))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    with contextlib.suppress(Refused):
        load(b"\x80\x04" + data)


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch ongpu-was-here",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_code_is_refused_and_never_run(protocol: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused, match="GLOBAL"):
        load(pickle.dumps({"segments": [Evil()]}, protocol=protocol))
    assert list(tmp_path.iterdir()) == []


BAD = {
    "reduce": b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.",
    "inst": b"\x80\x02(S'id'\nios\nsystem\n.",
    "persistent": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "extension": b"\x80\x02\x82\x01.",
    "buffer": b"\x80\x05\x97.",
    "length of terabytes": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 42),
    "byte array of terabytes": b"\x80\x05\x96" + struct.pack("<Q", 1 << 42),
    "text of gigabytes": b"\x80\x04X" + struct.pack("<I", 0xFFFFFFF0) + b"a",
    "memo": b"\x80\x02j\xff\xff\xff\xff.",
    "pop": b"\x80\x040.",
    "marks": b"\x80\x04" + b"(" * 100_000 + b".",
    "items of a list": b"\x80\x04](K\x01K\x02u.",
    "appends to a dict": b"\x80\x04}(K\x01e.",
    "deep key": b"\x80\x04}" + b")" + b"\x85" * 50_000 + b"K\x01s.",
    "cut off": pickle.dumps({"segments": [1, 2, 3]})[:-6],
    "large number": b"\x80\x04\x8a\xff" + b"\x01" * 255 + b".",
}


@pytest.mark.parametrize("name", BAD)
def test_hostile_pickles_are_refused_at_once(name: str) -> None:
    began = time.monotonic()
    with pytest.raises(Refused):
        load(BAD[name])
    assert time.monotonic() - began < 2


def test_a_memo_with_a_high_index_costs_nothing() -> None:
    assert load(b"\x80\x02]r\xff\xff\xff\x7f.") == []


def test_objects_without_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickled, "MAX_CONTAINERS", 1000)
    with pytest.raises(Refused, match="more objects"):
        load(b"\x80\x04](" + b"]" * 2000 + b"e.")
