#!/usr/bin/env python3
"""Writes what would take too long to find out at every start: what the sources ask of a machine, and the tables as JSON.

usage: tools/index.py [--check]      --check: write nothing; 1 where a file is stale, missing or left over
"""

import json
import sys
import tomllib
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path

from ongpu.index import INDEX, names
from ongpu.knowledge._tables import FOLDER, PARSED, seal, twin_of
from ongpu.model import Get


def index() -> str:
    """The index, as it should be."""
    defaults = {field.name: field.default for field in fields(Get)}
    modules = names("ongpu.sources")
    sources = [
        {
            "module": module, "place": place, "kind": source.kind, "settle": source.settle,
            "get": [{name: value for name, value in asdict(get).items() if value != defaults[name]} for get in source.get],
        }
        for module in modules
        for place, source in enumerate(getattr(import_module(module), "SOURCES", ()))
    ]  # fmt: skip
    return json.dumps({"modules": modules, "sources": sources}, indent=1, ensure_ascii=False) + "\n"


def tables() -> dict[Path, str]:
    """The JSON of every TOML table, one entry a line, by the file that holds it."""
    found = {}
    for path in sorted(FOLDER.rglob("*.toml")):
        entries = tomllib.loads(path.read_text("utf-8"))
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in entries.items())
        found[twin_of(path)] = f'{{"of": "{seal(path.read_bytes())}", "table": {{\n{lines}\n}}}}\n'
    return found


def main() -> int:
    """Write or check."""
    wanted = {INDEX: index(), **tables()}
    over = [path for path in sorted(PARSED.rglob("*.json")) if path not in wanted]
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text] + over
    if "--check" in sys.argv[1:]:
        print("".join(f"stale: {path}\n" for path in stale) + ("run tools/index.py" if stale else "fresh"))
        return int(bool(stale))
    for path in over:
        path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
