"""A bare term that was asked about, and what it can mean."""


from ongpu.lazy import dataclass
from ongpu.model import Fact, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """One meaning. Texts are clauses in both languages; "" where nobody told."""

    family: str  # "cuda", "nvml", "xid", "architecture", "card", "library" ...
    label: str
    label_zh: str
    number: str
    name: str
    cause: str
    cause_zh: str
    action: str
    action_zh: str
    note: str
    note_zh: str
    name_zh: str
    ref: Ref


@dataclass(frozen=True, kw_only=True)
class Term(Fact):
    """What was asked, and everything that it can mean, the likeliest first."""

    text: str | None = None
    meanings: tuple[Meaning, ...] = ()
