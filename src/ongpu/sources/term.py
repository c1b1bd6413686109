"""A bare term that a user asks about: an error number or name, an Xid, an architecture, a card, a library."""

from collections.abc import Iterable
from dataclasses import asdict

from ongpu.facts.term import Meaning, Term
from ongpu.model import Evidence, Fact, Source


def read(evidence: Evidence) -> Iterable[Fact]:
    """What the term can mean."""
    from ongpu.knowledge import terms  # its tables are large, and seldom asked for

    term = evidence.text.strip()
    ref = evidence.ref(evidence.first_line, term)
    meanings = []
    for one in terms.look_up(term):
        values = asdict(one)
        values.pop("printed")
        meanings.append(Meaning(**values, ref=ref))
    if meanings:
        yield Term(text=term, meanings=tuple(meanings), refs=(ref,))


SOURCES = (Source(kind="term", read=read, looks_like=lambda evidence: False, gives=(Term,)),)
