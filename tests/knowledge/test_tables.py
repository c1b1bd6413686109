"""The tables themselves: dated, sourced, in both languages, free of our own traces; and how fast they load."""

import re
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import ongpu.knowledge
from ongpu.knowledge import errors, freshness, libs, others, xids
from ongpu.model import Layer

FOLDER = Path(ongpu.knowledge.__file__).parent
TABLES = ("cuda_driver", "errors", "gpus", "jax", "libs", "nvcc_hosts", "others", "tensorflow", "torch", "xid")


def dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from dicts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from dicts(inner)


@pytest.mark.parametrize("name", TABLES)
def test_dated_and_sourced(name: str) -> None:
    table = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    assert date.fromisoformat(table["checked"]) <= date.today()
    assert table["source"]
    assert all(table["source"])


@pytest.mark.parametrize("name", TABLES)
def test_no_trace_of_the_machine_it_was_made_on(name: str) -> None:
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    assert re.findall(r"find_string|read here|measured here|/work/|/tmp/|/opt/|/root/|/home/", text) == []


@pytest.mark.parametrize("name", TABLES)
def test_what_is_said_is_said_in_both_languages(name: str) -> None:
    table = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    for row in dicts(table):
        for key, value in row.items():
            if key.endswith("_zh"):
                assert value, row
                assert row.get(key.removesuffix("_zh")), row
                assert re.search(r"[\u4e00-\u9fff]", value), value
            elif key in ("cause", "action", "meaning") and isinstance(value, str):
                assert row.get(f"{key}_zh"), row


def test_meanings_name_layers() -> None:
    layers = {layer.name.lower() for layer in Layer}
    for number in range(10001):
        for code in errors.look_up(str(number)):
            assert (code.layer is None) == (code.cause is None) == (code.action is None)
            assert code.layer is None or code.layer in layers


def test_xids_are_whole() -> None:
    for one in xids.xids():
        told = (one.meaning, one.meaning_zh, one.action, one.action_zh, one.category)
        assert all(told) or not any(told), one


def test_notes_of_packages_and_libraries() -> None:
    for package in others.packages():
        assert (package.note is None) == (package.note_zh is None), package.name
    for name in ("libcublas.so.12", "libcuda.so.1", "libcudnn.so.9"):
        found = libs.library(name)
        assert found is not None
        assert found.note_zh


def test_freshness() -> None:
    assert {name for name, _ in freshness.checked()} >= set(TABLES)
    day = dict(freshness.checked())["torch"]
    assert freshness.stale(day) == []
    later = date.fromordinal(day.toordinal() + freshness.MAX_AGE_DAYS + 1)
    assert "torch" in {name for name, _ in freshness.stale(later)}
    assert "torch" not in {name for name, _ in freshness.stale(date.fromordinal(later.toordinal() - 1))}
