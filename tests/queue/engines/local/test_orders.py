"""Operators' words on their way to the daemon: durable, in order, each heeded; and which GPU a person means."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local.orders import FOLDER, Order, give, heeded, keep, kept, named, waiting
from ongpu.queue.job import Card

CARDS = [Card(id="GPU-aaaa1111", index=0), Card(id="GPU-aaaa2222", index=1), Card(id="MIG-bbbb", index=1)]


class TestNames:
    @pytest.mark.parametrize(("name", "ids"), [
        ("0", ["GPU-aaaa1111"]), ("gpu-AAAA2222", ["GPU-aaaa2222"]), ("GPU-aaaa1", ["GPU-aaaa1111"]), ("all", [card.id for card in CARDS]),
        ("MIG-", ["MIG-bbbb"]),
    ])  # fmt: skip
    def test_a_gpu_is_named(self, name: str, ids: list[str]) -> None:
        assert [card.id for card in named(CARDS, name)] == ids

    @pytest.mark.parametrize("name", ["7", "GPU-aaaa", "GPU", "1", "", "x" * 1000])
    def test_none_or_several(self, name: str) -> None:
        with pytest.raises(EngineError) as error:
            named(CARDS, name)
        assert error.value.english != error.value.chinese
        assert "GPU-aaaa2222" in error.value.english or "knows 0-1" in error.value.english
        assert len(error.value.english) < 120

    def test_no_gpu_is_known(self) -> None:
        with pytest.raises(EngineError, match="knows of no GPU"):
            named([], "0")


class TestOrders:
    def test_in_order_until_heeded(self, tmp_path: Path) -> None:
        assert waiting(tmp_path) == []
        first = [Order("GPU-1", "drain", "ann", 5.0), Order("GPU-2", "test")]
        give(tmp_path, first)
        give(tmp_path, [Order("GPU-1", "return")])
        found = waiting(tmp_path)
        assert [order for _, order in found] == [*first, Order("GPU-1", "return")]
        assert waiting(tmp_path) == found, "until it is heeded"
        heeded(tmp_path, [found[0][0], "never-was"])
        assert [order.word for _, order in waiting(tmp_path)] == ["test", "return"]
        assert os.stat(tmp_path / FOLDER).st_mode & 0o77 == 0

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"gpu": 3, "word": "drain"}', b'{"gpu": "GPU-1", "word": "explode"}', b"\xff"])
    def test_what_is_no_order_is_taken_away(self, tmp_path: Path, content: bytes) -> None:
        give(tmp_path, [Order("GPU-1", "drain")])
        (tmp_path / FOLDER / "000-bad").write_bytes(content)
        (tmp_path / FOLDER / ".half").write_bytes(content)  # another is writing it
        assert [order.word for _, order in waiting(tmp_path)] == ["drain"]
        assert not (tmp_path / FOLDER / "000-bad").exists()
        assert (tmp_path / FOLDER / ".half").exists()

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(EngineError):
            give(tmp_path / "none", [Order("GPU-1", "drain")])
        assert waiting(tmp_path / "none") == []


def test_results_are_kept(tmp_path: Path) -> None:
    assert kept(tmp_path, "GPU-1") is None
    keep(tmp_path, "GPU-1", {"result": "passed"})
    keep(tmp_path, "../../x", {"result": "failed"})
    assert (kept(tmp_path, "GPU-1"), kept(tmp_path, "../../x")) == ({"result": "passed"}, {"result": "failed"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tests"]
    keep(tmp_path / "none", "GPU-1", {})  # a folder that is gone is no error


@given(st.text(max_size=30) | st.sampled_from(["0", "all", "MIG-bbbb", "gpu-aaaa2"]))
def test_any_name(name: str) -> None:
    with contextlib.suppress(EngineError):
        assert set(named(CARDS, name)) <= set(CARDS)
