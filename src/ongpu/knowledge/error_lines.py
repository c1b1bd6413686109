"""The table of known error lines (`knowledge/symptoms/*.toml`), and a fast way to find which of its words a text holds."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from ongpu.knowledge._tables import read
from ongpu.lazy import dataclass

TABLES = Path(__file__).parent / "symptoms"
PRINTED = ("benign", "container", "driver", "hardware", "libraries", "system")  # tables, in the order of their names
_DIGITS = b"0123456789"
_FOLD = bytes(c + 32 if 65 <= c <= 90 else c if 97 <= c <= 122 or c >= 128 or c == 10 else 32 for c in range(256))


@dataclass(frozen=True, slots=True)
class Symptom:
    """A line to recognise: one of `literals` (lower case) must stand in it, and `regex` (if any) must match."""

    name: str
    literals: tuple[str, ...]
    regex: str | None

    def pattern(self) -> re.Pattern[str] | None:
        """The compiled regex."""
        return compiled(self.regex) if self.regex else None


@cache
def compiled(regex: str) -> re.Pattern[str]:
    """The regex; case is ignored."""
    return re.compile(regex, re.IGNORECASE)


def table() -> tuple[Symptom, ...]:
    """All symptoms, from one TOML file per layer."""
    return tuple(symptom for path in sorted(TABLES.glob("*.toml")) for symptom in layer(path))


def printed() -> tuple[Symptom, ...]:
    """Those that the kernel and the driver can print: not what people tell, nor what Python does."""
    return tuple(symptom for name in PRINTED for symptom in layer(TABLES / f"{name}.toml") if not symptom.name.endswith("-told"))


@cache
def layer(path: Path) -> tuple[Symptom, ...]:
    """The symptoms of one table."""
    return tuple(Symptom(name, _tuple(entry["has"]), entry.get("re")) for name, entry in read(path).items())


def _tuple(has: str | list[str]) -> tuple[str, ...]:
    return (has,) if isinstance(has, str) else tuple(has)


def fold(text: bytes) -> bytes:
    """Lower case, without digits, a space for each sign: the shape of a text. Bytes of other scripts stay."""
    return text.translate(_FOLD, _DIGITS)


@dataclass(frozen=True, slots=True)
class Index:
    """Literals by their longest word, so that a text's distinct words tell which literals it can hold at all."""

    by_word: dict[bytes, tuple[str, ...]]
    wordless: tuple[str, ...]  # no letters: these must be searched for themselves

    def possible(self, words: Iterable[bytes]) -> set[str]:
        """The literals that a text of these (folded) words may hold; never too few."""
        joined = b" ".join(words)
        found = set(self.wordless)
        for word, literals in self.by_word.items():
            if word in joined:
                found.update(literals)
        return found


def index(literals: Sequence[str], encoding: str = "utf-8") -> Index:
    """The literals (lower case) by their longest word."""
    by_word: dict[bytes, list[str]] = {}
    wordless: list[str] = []
    for literal in dict.fromkeys(literals):
        try:
            words = fold(literal.encode(encoding)).split()
        except UnicodeEncodeError:  # the text cannot hold it
            continue
        if words:
            by_word.setdefault(max(words, key=len), []).append(literal)
        else:
            wordless.append(literal)
    return Index({word: tuple(items) for word, items in by_word.items()}, tuple(wordless))


@cache
def symptom_index() -> Index:
    """All literals of the table."""
    return index([literal for symptom in table() for literal in symptom.literals])
