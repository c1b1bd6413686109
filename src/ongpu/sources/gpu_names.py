"""GPU models that people name in prose ("GPU: RTX 2060", "2 x Tesla V100")."""

from collections.abc import Iterable

from ongpu.facts.hardware import Gpus
from ongpu.knowledge.gpus import compute_capability, find_names
from ongpu.model import Evidence, Fact, Source

MAX_TEXT = 60_000  # characters: a model is told near the beginning or not at all
MAX_NAMES = 8


def read(evidence: Evidence) -> Iterable[Fact]:
    """The models named in the text."""
    text = evidence.text[:MAX_TEXT]
    names = find_names(text)[:MAX_NAMES]
    if not names:
        return
    flat = " ".join(text.split())
    refs = []
    for name in names:
        at = text.find(name)
        if at < 0 and name in flat:  # a line end stands inside the name
            at = text.find(name.split()[0])
        if at >= 0:
            refs.append(evidence.ref_at(at, "names"))
    known = tuple((name, capability) for name in names if (capability := compute_capability(name)))
    yield Gpus(names=tuple(names), capabilities=known, refs=tuple(dict.fromkeys(refs)))


SOURCES = (Source(kind="gpu-names", read=read, looks_like=lambda evidence: bool(evidence.text), gives=(Gpus,)),)
