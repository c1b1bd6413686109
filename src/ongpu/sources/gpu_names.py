"""GPU models that people name in prose ("GPU: RTX 2060", "2 x Tesla V100")."""

import re
from collections.abc import Iterable

from ongpu.facts.hardware import Gpus
from ongpu.knowledge.gpus import compute_capability, find_names
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Source

MAX_TEXT = 60_000  # characters: a model is told near the beginning or not at all
MAX_NAMES = 8
_BARE = lazy(  # "my 3080", "two 1080 Ti": a number alone, after a word that makes it a card
    r"(?:\b(?:my|our|an?|the|on|with|two|three|four|dual|single|have|nvidia|gpu:?)\s+|^)(?P<n>10[5-8]0|16[56]0|20[678]0|30[5-9]0|40[6-9]0|50[5-9]0)"
    r"(?P<more>\s?(?:Ti|Super)\b)?(?!\s?(?:m?s\b|sec\w*|epochs|samples|times|tokens|files|lines|steps|px|MHz|MB|GB|images|iter|x|[.,:]\d)|\d|[.,/x]\d)",
    re.IGNORECASE | re.MULTILINE,
)


def _full(match: re.Match[str]) -> str:
    return ("GTX " if match["n"][0] == "1" else "RTX ") + match["n"] + (" " + match["more"].strip() if match["more"] else "")


def read(evidence: Evidence) -> Iterable[Fact]:
    """The models named in the text."""
    text = evidence.text[:MAX_TEXT]
    names = (find_names(text) or [_full(match) for match in _BARE.finditer(text)])[:MAX_NAMES]
    if not names:
        return
    flat = " ".join(text.split())
    refs = []
    for name in names:
        at = text.find(name)
        at = at if at >= 0 else text.find(name.split()[1])
        if at < 0 and name in flat:  # a line end stands inside the name
            at = text.find(name.split()[0])
        if at >= 0:
            refs.append(evidence.ref_at(at, "names"))
    known = tuple((name, capability) for name in names if (capability := compute_capability(name)))
    yield Gpus(names=tuple(names), capabilities=known, refs=tuple(dict.fromkeys(refs)))


SOURCES = (Source(kind="gpu-names", read=read, looks_like=lambda evidence: bool(evidence.text), gives=(Gpus,)),)
