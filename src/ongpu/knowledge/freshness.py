"""How old the tables are."""

import re
from datetime import date
from functools import cache

from ongpu.knowledge._tables import FOLDER
from ongpu.lazy import lazy

MAX_AGE_DAYS = 180
_CHECKED = lazy(r'^checked = "(\d{4}-\d{2}-\d{2})"', re.MULTILINE)


@cache
def checked() -> tuple[tuple[str, date], ...]:
    """Name and day of checking of every table here that bears one, read from its head without parsing it."""
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        with path.open(encoding="utf-8") as file:
            head = file.read(2000)
        if day := _CHECKED.search(head):
            found.append((path.stem, date.fromisoformat(day[1])))
    return tuple(found)


def stale(today: date) -> list[tuple[str, date]]:
    """Tables checked more than MAX_AGE_DAYS before `today`, oldest first."""
    old = [(name, day) for name, day in checked() if (today - day).days > MAX_AGE_DAYS]
    return sorted(old, key=lambda entry: entry[1])
