"""Reads the TOML tables that lie next to this module, each once."""

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent

Table = dict[str, Any]


@cache
def table(name: str) -> Table:
    """The table `name` (without .toml). Raises FileNotFoundError or tomllib.TOMLDecodeError: then the installation is broken."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def rows(block: str, separator: str | None = None) -> Iterator[list[str]]:
    """The fields of each line of a block of rows: big tables are kept so, because parsing TOML key by key is slow."""
    for line in block.splitlines():
        if line.strip():
            yield [field.strip() for field in line.split(separator)]
