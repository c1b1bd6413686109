"""How many GPUs people say that a machine has, and how many they see ("8x A100", "shows only 7", "只显示 3 张")."""

import re
from collections.abc import Iterable

from ongpu.facts.counts import CONFIGURED, GpuCount
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Source

MAX_TEXT = 60_000
_WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "ten": 10, "sixteen": 16,
          "两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "十": 10}
_N = r"(?:\d{1,2}|two|three|four|five|six|seven|eight|ten|sixteen|[两二三四五六七八十])"
_CARD = (
    r"(?:GPUs?\b|(?:graphics )?cards?\b|(?:NVIDIA |Tesla |GeForce |Quadro )?(?:[AHVPKLTB]\d{1,4}s?\b|RTX ?\w{3,6}|GTX ?\w{3,6}|Titan\w*|"
    r"[2-5]0[5-9]0(?: ?Ti)?s?\b))"
)
_TOLD = lazy(
    rf"(?:has|have|with|of|contains?|we have|server:?|installed|machine:?|holds?|there are|with its|BMC (?:shows|sees) all|are)\s+(?:all\s+)?(?:a |an )?"
    rf"(?P<n>{_N})\s?[x×*]?\s?{_CARD}|\b(?P<n2>\d{{1,2}})\s?[x×]\s?{_CARD}|(?:装了|有|共|一共|插了|配了)\s?(?P<n3>{_N})\s?(?:张|块|个|卡)|(?:есть|стоит|стоят|установлен\w*|сервере|mit|hat)\s(?P<n4>{_N})\s(?:видеокарт|карт|GPUs?\b|Karten)",
    re.IGNORECASE,
)
_SEEN = lazy(
    rf"(?:only|just|sees?|shows?|lists?|gives|reports?|detects?|returns?)\s+(?:only\s+|just\s+)?(?P<n>{_N})(?=\s?(?:GPUs?|cards?|devices?|of (?:them|the)|are\b|[.,;\n]|$|"
    rf"and\b))|(?:只)(?:能)?(?:显示|识别(?:到)?|看到|有|检测到)\s?(?P<n2>{_N})\s?(?:张|块|个)|(?:только|nur|seulement|solo)\s(?P<n4>{_N})\b|(?P<k8s>nvidia\.com/gpu):\s+(?P<n3>\d{{1,2}})\b",
    re.IGNORECASE,
)


def _number(word: str | None) -> int | None:
    return int(word) if word and word.isdigit() else _WORDS.get((word or "").lower())


def read(evidence: Evidence) -> Iterable[Fact]:
    """The larger count that is told, the smaller one that is seen."""
    text = evidence.text[:MAX_TEXT]
    seen = [(n, m) for m in _SEEN.finditer(text) if (n := _number(m["n"] or m["n2"] or m["n3"] or m["n4"])) is not None]
    told = [(n, m) for m in _TOLD.finditer(text) if (n := _number(m["n"] or m["n2"] or m["n3"] or m["n4"])) and n > 1]
    told = [(n, m) for n, m in told if not any(m.start() < s.end() and s.start() < m.end() for _, s in seen)]
    if not seen and not told:
        return
    refs = [evidence.ref_at(match.start(), "told") for _, match in told[:1]] + [evidence.ref_at(match.start(), "seen") for _, match in seen[:1]]
    yield GpuCount(
        told=max((n for n, _ in told), default=None), seen=min((n for n, _ in seen), default=None),
        configured=True if evidence.origin == CONFIGURED else None,
        clusters=True if any(m["k8s"] for _, m in seen) else None, refs=tuple(dict.fromkeys(refs)),
    )


def looks_like(evidence: Evidence) -> bool:
    """Whether GPUs may be counted in it."""
    return evidence.kind == "pasted" and any(word in evidence.text for word in ("GPU", "gpu", "card", "卡", "RTX", "A100", "V100", "H100", "карт", "张", "块", "nvidia"))


SOURCES = (Source(kind="gpu-counts", read=read, looks_like=looks_like, gives=(GpuCount,)),)
