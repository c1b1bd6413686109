"""Which causes reports with similar words had: a guess by words alone, for texts in which no rule finds anything.

The table `likeness.json` is learnt from reports with a confirmed cause by tools/learn_likeness.py.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ongpu.knowledge import gpus
from ongpu.lazy import dataclass, lazy
from ongpu.model import Evidence

FOLDER = Path(__file__).parent
BENIGN = frozenset({"healthy", "not-gpu-related"})
VARIANT = "likeness"  # the variant of a finding that is such a guess
FEWEST = 5  # known words without which nothing is said
_FIRST, _STEPS, _PER = 0x100, 10, 2  # how the packed table keeps a cause and a weight (in halves, 0.5 to 5) as one character

_PATH = lazy(
    r"(?:\b[a-z]:)?(?:[\\/][\w.@+\-]+){2,}[\\/]?"
    r"|\bhttps?://\S+|\b[0-9a-f]{12,}\b|\b0x[0-9a-f]+\b|\bGPU-[0-9a-f-]{8,}",
    re.I,
)
_SONAME = lazy(r"\b(lib[a-z0-9_]+|nvidia_[a-z0-9_]+|cu[a-z]+64_)[\w\-]*\.(?:so|dll)[\d.]*", re.I)
_VERSION = lazy(r"\bv?(\d{1,4})\.(\d{1,4})(?:\.\d+)*(?:[.\-+]?(?:post|rc|dev|a|b|cu|cpu|rocm)\w*)*", re.I)
_BUILD = lazy(r"(?<=\+)(cu|cpu|rocm)\d*|\bcu(?=\d{2,3}\b)", re.I)
_WORD = lazy(r"[A-Za-z_][A-Za-z0-9_]*|\d+")
_CAMEL = lazy(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_CHINESE = lazy(r"[\u4e00-\u9fff]+")
_COMMAND = lazy(r"^(?:sudo )?(?:\S*/)?([\w.\-]+)(?:\s+(?:-m )?([a-z][\w\-]+))?")
_USUAL = (
    "the a an and or of to in is it on for with at by as be was are this that from not no i my we you so if but have has had "
    "do does did can will would file line most recent call last traceback info am pm http https www com github"
)
_STOP = frozenset(_USUAL.split())


def tokens(text: str) -> list[str]:
    """The words of one line that may tell a cause: each once for each time that it stands there."""
    found: list[str] = []
    for name in gpus.find_names(text):
        capability = gpus.compute_capability(name)
        if capability:
            found.append("card:" + capability.split(".")[0])
        text = text.replace(name, " ")
    text = _PATH.sub(" ", text)
    found += ["build:" + kind[0].lower() for kind in _BUILD.finditer(text)]
    for library in _SONAME.finditer(text):
        found.append("lib:" + library[1].lower())
    text = _SONAME.sub(" ", text)
    text = _VERSION.sub(" ", text)
    before = ""
    for match in _WORD.finditer(text):
        raw = match[0]
        if raw[0].isdigit():
            before = ""
            if len(raw) <= 3:
                found.append("#" + raw)
            continue
        parts = [part.lower() for part in _CAMEL.split(raw) if part]
        whole = raw.lower()
        names = [whole] if len(parts) == 1 else [whole, *(p for p in parts if len(p) > 2 and not p.isdigit())]
        found += [name for name in names if len(name) > 1 and name not in _STOP]
        if before and whole not in _STOP:
            found.append(f"{before} {whole}")
        before = whole if whole not in _STOP else before
    for run in _CHINESE.findall(text):
        found += [run[i : i + 2] for i in range(len(run) - 1)]
    return found


def command_tokens(command: str) -> list[str]:
    """The kind of a command that was run."""
    match = _COMMAND.match(command.strip())
    if not match:
        return []
    name = match[1].lower()
    return ["$" + name, *([f"${name} {match[2]}"] if match[2] else [])]


def words(evidence: Iterable[Evidence]) -> list[str]:
    """The words of a whole paste, and the kinds of the commands."""
    found: list[str] = []
    for item in evidence:
        if item.command:
            found += command_tokens(item.command) + tokens(item.command)
        for line in item.text.split("\n"):
            found += tokens(line)
    return found


@dataclass(frozen=True, slots=True)
class Table:
    """What was learnt. For each word the causes (places in `slugs`) in whose reports it stands, and how much it speaks for them.

    base: what a word says of a cause in whose reports it does not stand (less than 0). prior: how often the cause was seen.
    """

    slugs: tuple[str, ...]
    prior: tuple[float, ...]
    base: tuple[float, ...]
    weights: Mapping[str, tuple[tuple[int, float], ...]]

    def score(self, found: Iterable[str]) -> list[tuple[str, float]]:
        """The causes and their shares of the likeness (they sum to 1), best first; nothing where hardly a word is known.

        Naive Bayes over the words, each counted once. The sum is damped by the root of their number: words are no
        independent witnesses.
        """
        known = [word for word in dict.fromkeys(found) if word in self.weights]
        if len(known) < FEWEST:
            return []
        sums = [base * len(known) for base in self.base]
        for word in known:
            for place, weight in self.weights[word]:
                sums[place] += weight
        likes = [prior + total / math.sqrt(len(known)) for prior, total in zip(self.prior, sums, strict=True)]
        most = max(likes)
        shares = [math.exp(like - most) for like in likes]
        return sorted(((slug, share / sum(shares)) for slug, share in zip(self.slugs, shares, strict=True)), key=lambda pair: -pair[1])

    def speaks(self, slug: str, found: Iterable[str]) -> float:
        """How much these words speak for the cause, beside an average cause."""
        place = self.slugs.index(slug)
        return sum(weight for word in set(found) for at, weight in self.weights.get(word, ()) if at == place)

    def packed(self) -> dict[str, object]:
        """As JSON keeps it: each word with one character for each cause and its weight."""
        texts = {
            word: "".join(chr(_FIRST + place * _STEPS + max(0, min(_STEPS, round(weight * _PER)) - 1)) for place, weight in pairs)
            for word, pairs in self.weights.items()
        }
        return {"slugs": self.slugs, "prior": [round(p, 3) for p in self.prior], "base": [round(b, 4) for b in self.base], "words": texts}


def unpacked(kept: Mapping[str, Any]) -> Table:
    """The table out of what JSON kept."""
    return Table(tuple(kept["slugs"]), tuple(kept["prior"]), tuple(kept["base"]), _Packed(kept["words"]))


@cache
def table() -> Table:
    """The learnt table. FileNotFoundError or ValueError where the installation is broken."""
    return unpacked(json.loads((FOLDER / "likeness.json").read_text("utf-8")))


class _Packed(Mapping[str, tuple[tuple[int, float], ...]]):
    """The words' weights, unpacked only for those asked for."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def __getitem__(self, word: str) -> tuple[tuple[int, float], ...]:
        pairs = (divmod(ord(char) - _FIRST, _STEPS) for char in self.texts[word])
        return tuple((place, (level + 1) / _PER) for place, level in pairs)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def __contains__(self, word: object) -> bool:
        return word in self.texts
