"""Reads the TOML tables that lie next to this module, each once.

For each, `parsed/` holds the same as JSON, which is read twenty times as fast. tools/index.py writes it; one that does not
belong to the table as it stands is not used, so it can be old, but never wrong.
"""

import json
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PARSED = FOLDER / "parsed"

Table = dict[str, Any]


def table(name: str) -> Table:
    """The table `name` (without .toml). Raises FileNotFoundError or tomllib.TOMLDecodeError: then the installation is broken."""
    return read(FOLDER / f"{name}.toml")


@cache
def read(path: Path) -> Table:
    """What a TOML file of this folder or one in it says."""
    text = path.read_bytes()
    try:
        twin = json.loads(twin_of(path).read_bytes())
        if twin["of"] == seal(text):
            return dict(twin["table"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    import tomllib  # only here: it takes longer to load than most tables

    return tomllib.loads(text.decode())


def twin_of(path: Path) -> Path:
    """Where the JSON of a table lies."""
    return PARSED / path.relative_to(FOLDER).with_suffix(".json")


def seal(text: bytes) -> str:
    """What tells one state of a table from another."""
    return f"{len(text)} {zlib.crc32(text):08x}"


def rows(block: str, separator: str | None = None) -> Iterator[list[str]]:
    """The fields of each line of a block of rows: big tables are kept so, because parsing TOML key by key is slow."""
    for line in block.splitlines():
        if line.strip():
            yield [field.strip() for field in line.split(separator)]
