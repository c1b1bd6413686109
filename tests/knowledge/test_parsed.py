"""The tables and their JSON."""

import json
import tomllib
from pathlib import Path

import pytest

from ongpu.knowledge import _tables


@pytest.mark.parametrize("path", sorted(_tables.FOLDER.rglob("*.toml")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_is_read_is_what_the_table_says(path: Path) -> None:
    assert _tables.read(path) == tomllib.loads(path.read_text("utf-8"))


def _folder(path: Path, monkeypatch: pytest.MonkeyPatch, toml: str, twin: str) -> Path:
    monkeypatch.setattr(_tables, "FOLDER", path)
    monkeypatch.setattr(_tables, "PARSED", path / "parsed")
    (path / "parsed").mkdir()
    (path / "a.toml").write_text(toml)
    (path / "parsed/a.json").write_text(twin)
    return path / "a.toml"


def test_a_twin_that_belongs_to_the_table_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twin = {"of": _tables.seal(b"x = 1\n"), "table": {"x": "from the twin"}}
    path = _folder(tmp_path, monkeypatch, "x = 1\n", json.dumps(twin))
    assert _tables.read(path) == {"x": "from the twin"}


@pytest.mark.parametrize("twin", ["", "{}", "[]", "nonsense", json.dumps({"of": _tables.seal(b"x = 2\n"), "table": {"x": 2}})])
def test_one_that_does_not_is_not(twin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _tables.read(_folder(tmp_path, monkeypatch, "x = 1\n", twin)) == {"x": 1}
