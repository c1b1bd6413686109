#!/usr/bin/env python3
"""Writes src/ongpu/sources/index.json: what every source asks of the machine, as the sources themselves say it.

usage: tools/index.py [--check]      --check: write nothing; 1 where the index is stale
"""

import json
import sys
from dataclasses import asdict, fields
from importlib import import_module

from ongpu.index import INDEX, names
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


def main() -> int:
    """Write or check."""
    text = index()
    if "--check" in sys.argv[1:]:
        stale = not INDEX.exists() or INDEX.read_text("utf-8") != text
        print("stale: run tools/index.py" if stale else "fresh")
        return int(stale)
    INDEX.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
