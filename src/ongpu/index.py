"""What every source asks of the machine, known before its module is loaded: start-up would cost more than the diagnosis.

`sources/index.json` is written by tools/index.py from the sources themselves. It only saves time: a module that
it does not name is loaded. A test says when it is stale.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ongpu.model import Get, Source

INDEX = Path(__file__).parent / "sources" / "index.json"


def names(package: str) -> list[str]:
    """The modules in that package and in the packages in it, in the order of their names; none of them is loaded."""
    return sorted(_walk(package, str(Path(__file__).parent.joinpath(*package.split(".")[1:]))))


def _walk(package: str, folder: str) -> Iterator[str]:
    for entry in os.listdir(folder):
        name, dot, suffix = entry.partition(".")
        if suffix in ("py", "pyc") and name != "__init__":
            yield f"{package}.{name}"
        elif not dot and not name.startswith("_"):
            yield from _walk(f"{package}.{name}", os.path.join(folder, name))


def indexed() -> tuple[Source, ...]:
    """Every source: as the index says it; a module that it does not name (or all, where it is missing) is loaded."""
    known: dict[str, list[Source]] = {}
    with suppress(OSError, ValueError, KeyError, TypeError):
        index = json.loads(INDEX.read_text("utf-8"))
        known = {module: [_source(**row) for row in index["sources"] if row["module"] == module] for module in index["modules"]}
    found: list[Source] = []
    for module in names("ongpu.sources"):
        found += known[module] if module in known else getattr(import_module(module), "SOURCES", ())
    return tuple(found)


def _source(module: str, place: int, kind: str, settle: str, get: list[dict[str, Any]]) -> Source:
    """A source that loads its module when it is asked to read, or whether it can."""

    def loaded() -> Source:
        found: Source = import_module(module).SOURCES[place]
        return found

    def question(row: dict[str, Any]) -> Get:
        return Get(**{**row, "argv": tuple(row.get("argv", ()))})

    return Source(
        kind=kind,
        read=lambda evidence: loaded().read(evidence),
        looks_like=lambda evidence: loaded().looks_like(evidence),
        gives=(),
        get=tuple(question(row) for row in get),
        settle=settle,
    )
