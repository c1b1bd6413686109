"""Reads GPU names as people and tools write them: 'NVIDIA GeForce RTX 3070 Laptop GPU', 'rtx3090ti', 'A100-SXM4-80GB'."""

import re
from functools import cache

from ongpu.lazy import lazy

BRANDS = frozenset({"geforce", "tesla", "quadro", "grid"})
# Words that tell nothing about the chip.
_NOISE = frozenset({"nvidia", "corporation", "r", "tm", "gpu", "gpus", "graphics", "card", "adapter", "device", "series"})
_NOISE |= {"generation", "with", "design", "edition", "workstation", "founders", "gaming", "oc", "jetson", "module"}
_ALIKE = {"laptop": "mobile", "notebook": "mobile", "maxq": "max q", "pci": "pcie", "express": "pcie"}
_MEMORY = lazy(r"\d+gb?|hbm\d\w?|gddr\d\w?|sxm\d?|\d+[qcab]|\dg")  # may be missing from the table: dropped when unknown
_DIGIT = lazy(r"\d")
_NAMES = frozenset({"titan", "thor", "orin", "xavier", "nano"})  # models without a number
_CHIP = lazy(r"(?!gb[23]00|gh200)(?:g[abfhkmpv]\d{3}|tu\d{3}|ad\d{3}|g[abkmpv]\d{2}b|gk20a)[a-z]{0,3}")

# A model in prose. Names of four digits or letters that mean other things as well need a word beside them.
_PROSE = r"""(?<![\w.-])(?:
      (?:nvidia\s+)?(?:geforce\s+)?(?:rtx|gtx|gts?)[\s-]?(?:pro\s)?a?\d{3,4}m?x?
        (?:\s?(?:ti\s+super|ti|super|d)\b)?(?:\s+(?:ada|blackwell)\b)?(?:\s+(?:laptop|mobile|max-q)\b)?(?:\s+\d{1,3}\s?gb?\b)?
    | (?:nvidia\s+)?(?:gtx\s+)?titan\s?(?:xp|x|v|rtx|z|black)\b
    | (?:nvidia\s+)?quadro\s+(?:rtx\s+|gp|gv)?[kmpt]?\d{3,4}m?
    | (?:nvidia\s+|tesla\s+){1,3}[abhklmptv]\d{1,3}[a-z]{0,2}(?:[\s-](?:sxm\d?|pcie?|nvl))?(?:[\s-]\d{1,3}\s?gb?\b)?
    | (?:a100|a800|h100|h200|h800|h20|b100|b200|b300|gb200|gb300|gh200|v100s?|p100|k80|m60|l40s|a10g|a40|p40|t4)
        (?:[\s-](?:sxm\d?|pcie?|nvl))?(?:[\s-]\d{1,3}\s?gb?\b)?
    | jetson\s(?:agx\s|orin\s|xavier\s)?(?:nano|tx1|tx2|xavier|orin|thor|nx)
    | (?:10[5-8]0|16[356]0|20[678]0|30[5-9]0|40[5-9]0|50[5-9]0)\s?(?:ti|super|d)?(?=\s?(?:显卡|gpu|card|laptop|笔记本))
    )(?![\w-]|\.\d)"""


def words(name: str) -> frozenset[str]:
    """The words of a name that tell models apart: 'GTX 1050ti 4 GB' -> {gtx, 1050, ti, 4gb}."""
    text = re.sub(r"\bmig\b.*", "", name.lower())
    text = re.sub(r"max-?q", "maxq", text)
    text = re.sub(r"(?<=\d)\s*gi?b\b", "gb", text)
    text = re.sub(r"\b(rtx|gtx|gts|gt|geforce|quadro|tesla|titan)(?=[a-z]?\d)", r"\1 ", text)
    text = re.sub(r"\btitan(?=x|v|z)", "titan ", text)
    text = re.sub(r"(?<=\d)(tis|ti|super|d)(?=[\s\-_]|super|$)", lambda m: " ti super" if m[1] == "tis" else f" {m[1]} ", text)
    found = re.findall(r"[a-z0-9]+", text)
    return frozenset(word for raw in found for word in _ALIKE.get(raw, raw).split() if raw not in _NOISE)


def is_telling(asked: frozenset[str]) -> bool:
    """Whether any word names a model rather than a brand, a series or a chip."""
    return any((_DIGIT.search(w) or w in _NAMES) and not _CHIP.fullmatch(w) for w in asked)


def is_size(word: str) -> bool:
    """Whether a word tells memory, socket or vGPU profile: it tells variants of a model apart, not models."""
    return _MEMORY.fullmatch(word) is not None


def is_spare(word: str) -> bool:
    """Whether a word that no model bears may be left out of a question."""
    return is_size(word) or not _DIGIT.search(word)


def chips(name: str) -> list[str]:
    """Chip code names in a name, as lspci prints them: 'NVIDIA Corporation AD102 [GeForce RTX 4090]' -> [ad102]."""
    return [word for word in re.findall(r"\w+", name.lower()) if _CHIP.fullmatch(word)]


def names_chip(model: frozenset[str]) -> bool:
    """Whether a model's name carries its chip: a rare variant ('GTX 750 GM206') that an ordinary name does not mean."""
    return any(_CHIP.fullmatch(word) for word in model)


@cache
def _prose() -> re.Pattern[str]:
    return re.compile(_PROSE, re.ASCII | re.IGNORECASE | re.VERBOSE)  # ASCII: Chinese text runs on without spaces


def in_prose(text: str) -> list[str]:
    """What looks like a model's name in prose, as written, in order."""
    return [" ".join(found[0].split()) for found in _prose().finditer(text)]
