"""Which GPU is it: compute capability, memory, power and architecture by model name or chip."""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import takewhile

from ongpu.knowledge import _gpu_names as names
from ongpu.knowledge._gpu_table import Architecture, Model, OpenModules, architecture, architectures, chip_capability, models
from ongpu.knowledge._tables import table
from ongpu.lazy import field_names, replace

__all__ = [
    "Architecture",
    "Model",
    "OpenModules",
    "architecture",
    "architectures",
    "chip_capability",
    "compute_capability",
    "find_names",
    "model",
    "models",
    "models_with_memory_at_least",
]


@cache
def _index() -> tuple[dict[str, list[tuple[frozenset[str], Model]]], dict[frozenset[str], str], set[str]]:
    """Each word -> the models that bear it; words of an alias -> model; the ambiguous names."""
    by_word: dict[str, list[tuple[frozenset[str], Model]]] = {}
    for one in models():
        bears = names.words(one.name)
        for word in bears:
            by_word.setdefault(word, []).append((bears, one))
    told = table("gpus")["names"]
    return by_word, {names.words(k): v for k, v in told["alias"].items()}, set(told["ambiguous"])


def _bearing(asked: Iterable[str]) -> list[tuple[frozenset[str], Model]]:
    """The models whose names hold all the words asked for."""
    asked = frozenset(asked)
    lists = [_index()[0].get(word, []) for word in asked]
    return [(bears, one) for bears, one in min(lists, key=len, default=[]) if asked <= bears]


def _cut_short(asked: frozenset[str], last: str) -> list[tuple[frozenset[str], Model]]:
    """nvidia-smi cuts long names: 'GeForce RTX 208...' is any model whose words go on like that."""
    rest = _bearing(asked - {last}) if asked - {last} else []
    return [(bears, one) for bears, one in rest if any(word.startswith(last) for word in bears)]


def _candidates(name: str) -> list[tuple[frozenset[str], Model]]:
    by_word, aliases, _ = _index()
    short = name.rstrip(" .…") if name.rstrip().endswith(("...", "..", "…")) else None
    asked = names.words(name)
    if not names.is_telling(asked):
        return []
    if short is not None and (written := short.lower().replace("-", " ").split()):
        last = max(names.words(written[-1]), key=len, default="")
        return _cut_short(asked, last) if names.is_telling(frozenset({last})) else _bearing(asked)
    brands = asked & names.BRANDS
    known = frozenset(w for w in asked if w in by_word or not names.is_spare(w))
    plain = frozenset(w for w in known if not names.is_size(w))
    for words in dict.fromkeys((asked, known, plain)):
        for kept in dict.fromkeys((words, words - names.BRANDS)):
            if kept in aliases:
                return [(kept, one) for one in models() if one.name == aliases[kept]]
            found = _bearing(kept) if names.is_telling(kept) else []
            if "grid" not in kept:  # vGPU profiles and old cloud boards share names with ordinary cards
                found = [c for c in found if "grid" not in c[0]] or found
            exact = [c for c in found if c[0] - names.BRANDS == kept - names.BRANDS]
            exact = [c for c in exact if "rtx" not in kept or ("quadro" in c[0]) == ("quadro" in brands)]
            if exact or found:
                return exact or [c for c in found if not names.names_chip(c[0])] or found
    return []


def compute_capability(name: str) -> str | None:
    """Compute capability by model name, as nvidia-smi, lspci or people write it; None when unknown or ambiguous."""
    by_chip = [capability for chip in names.chips(name) if (capability := chip_capability(chip))]
    if by_chip:
        return by_chip[0]
    found = _candidates(name)
    told = {one.capability for _, one in found}
    return told.pop() if len(told) == 1 and not any(one.name in _index()[2] for _, one in found) else None


@lru_cache(maxsize=256)  # a machine that is watched asks of the same cards for ever
def model(name: str) -> Model | None:
    """The model of that name. Several that fit come as one, with None in the fields in which they differ.

    None when no model fits, or when those that fit differ in compute capability.
    """
    bracketed = re.search(r"\[([^\]]+)\]", name)  # lspci: AD102 [GeForce RTX 4090]
    asked = bracketed[1] if bracketed else name
    fit = [one for _, one in _candidates(asked)]
    if not fit or compute_capability(asked) is None:
        return None
    fit = [one for one in fit if not one.laptop] or fit
    same = {name: getattr(fit[0], name) for name in field_names(fit[0])}
    for key, value in same.items():
        if any(getattr(one, key) != value for one in fit):
            same[key] = None
    return replace(fit[0], **{**same, "name": " ".join(_shared([one.name.split() for one in fit])) or name.strip()})


def _shared(many: list[list[str]]) -> list[str]:
    """The words with which all begin."""
    return [column[0] for column in takewhile(lambda words: len(set(words)) == 1, zip(*many, strict=False))]


def find_names(text: str) -> list[str]:
    """GPU models named in prose, as written, in order, each once; only names that the table knows or finds ambiguous."""
    found = []
    for name in names.in_prose(text):
        written = name.split()
        while written and not _candidates(" ".join(written)):
            written.pop()  # 'RTX 4070 Ti SUPER Laptop' was never made: 'RTX 4070 Ti SUPER' was
        found.append(" ".join(written))
    return [name for name in dict.fromkeys(found) if name]


def models_with_memory_at_least(gib: float, kind: str | None = None) -> list[Model]:
    """Models with at least so much memory (GiB), smallest first; `kind`: consumer, workstation, datacenter, embedded."""
    enough = [m for m in models() if (m.memory_gib or 0) >= gib and kind in (None, m.kind)]
    return sorted(enough, key=lambda m: (m.memory_gib or 0, m.year or 0, m.name))
