"""The index of sources, and what is made when first used."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from ongpu import index
from ongpu.engine import PRINTED, all_sources, diagnose, loaded_sources, prepare
from ongpu.lazy import _Lazy, dataclass, lazy
from ongpu.model import Evidence

ROOT = Path(__file__).parent.parent


def test_the_index_says_what_the_sources_say() -> None:
    assert [(s.kind, s.get, s.settle) for s in index.indexed()] == [(s.kind, s.get, s.settle) for s in loaded_sources()], (
        "stale: run tools/index.py"
    )


def test_it_is_as_its_tool_writes_it() -> None:
    text = index.INDEX.read_text("utf-8")
    assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"


def test_an_indexed_source_reads() -> None:
    evidence = Evidence("pasted", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "paste")
    source = next(s for s in all_sources() if s.kind == "kernel-log")
    assert source.looks_like(evidence)
    assert [type(fact).__name__ for fact in source.read(evidence)] == ["Xids"]


@pytest.mark.parametrize("text", ["", "{}", '{"modules": [], "sources": []}', '{"modules": 1, "sources": {}}'])
def test_without_a_fresh_index_all_are_loaded(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index.json").write_text(text)
    monkeypatch.setattr(index, "INDEX", tmp_path / "index.json")
    assert all_sources.__wrapped__() == loaded_sources()


def test_a_module_that_the_index_does_not_name_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = json.loads(index.INDEX.read_text("utf-8"))
    old["modules"].remove("ongpu.sources.nvml")
    old["modules"].append("ongpu.sources.gone")
    old["sources"] = [row for row in old["sources"] if row["module"] != "ongpu.sources.nvml"]
    (tmp_path / "index.json").write_text(json.dumps(old))
    monkeypatch.setattr(index, "INDEX", tmp_path / "index.json")
    found, loaded = index.indexed(), loaded_sources()
    assert [source.kind for source in found] == [source.kind for source in loaded]
    assert [a == b for a, b in zip(found, loaded, strict=True) if a.kind == "nvml"] == [True]


def test_readers_name_sources() -> None:
    from ongpu.hosts.kernel import READERS

    assert {*READERS, *PRINTED} <= {source.kind for source in loaded_sources()}


def test_preparing_changes_no_answer() -> None:
    evidence = [Evidence("pasted", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "paste")]
    before = diagnose(evidence, "test")
    prepare()
    assert diagnose(evidence, "test") == before


def test_every_lazy_pattern_compiles() -> None:
    found = 0
    for package in ("sources", "rules", "facts", "knowledge", "hosts", "report", "fronts"):
        for name in index.names(f"ongpu.{package}"):
            if name == "ongpu.hosts.nvml_child":  # runs alone
                continue
            for value in vars(import_module(name)).values():
                for one in value if isinstance(value, tuple | list) else [value]:
                    if isinstance(one, _Lazy):
                        assert one.groups >= 0
                        found += 1
    assert found > 300


def test_a_lazy_pattern_is_one() -> None:
    pattern = lazy(r"(?P<n>\d+)", re.IGNORECASE)
    match = pattern.search("GPU 7")
    assert match
    assert match["n"] == "7"
    assert (pattern.pattern, pattern.groupindex["n"]) == (r"(?P<n>\d+)", 1)


def test_a_lazy_dataclass_is_one() -> None:
    @dataclass(frozen=True)
    class Base:
        """With a default."""

        number: int = 1

    @dataclass(frozen=True, slots=True)
    class Below(Base):
        """With another."""

        name: str = ""

    assert Below(2, "x") == Below(number=2, name="x")
    assert (Base().number, hash(Below())) == (1, hash((1, "")))
    assert repr(Below()).endswith("Below(number=1, name='')")
    with pytest.raises(AttributeError):
        Below().number = 3  # type: ignore[misc]
