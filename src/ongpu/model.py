"""The words that ongpu is written in: evidence, fact, rule, finding, report. Imports nothing of ours but `lazy`, touches nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, IntEnum
from typing import Any, Self, TypeVar

from ongpu.lazy import dataclass, field, field_names, replace

T = TypeVar("T")

UNGIVEN = "?"  # what a rule gives for a value that nobody told
MAX_QUOTE = 400  # characters of a quoted line that a reader is shown


class Layer(IntEnum):
    """Causal depth: a fault in a lower layer explains those above it."""

    HARDWARE = 0
    DRIVER = 1
    LIBRARIES = 2
    FRAMEWORK = 3
    ENVIRONMENT = 4
    CONTAINER = 5
    CODE = 6
    SYSTEM = 7


class Severity(IntEnum):
    """error: the GPU cannot be used; warning: it works, but badly; note: good to know."""

    NOTE = 0
    WARNING = 1
    ERROR = 2


class Certainty(IntEnum):
    """How far the evidence carries."""

    POSSIBLE = 0
    LIKELY = 1
    CERTAIN = 2


class Risk(IntEnum):
    """safe: changes nothing but what it says; disruptive: restarts something; destructive: removes something."""

    SAFE = 0
    DISRUPTIVE = 1
    DESTRUCTIVE = 2


class Verdict(Enum):
    """The four answers. Unknown is never told as healthy."""

    FOUND = "found"
    CLEAR = "clear"
    UNKNOWN = "unknown"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class Ref:
    """One line of evidence: where it stands and its words. `about` names the field of the fact that it carries."""

    source: str
    line: int
    quote: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was printed, word for word. `problem` says why there is no text: absence is evidence too.

    kind: the source that reads it, or "pasted" where nobody said.
    lines: (number, text) pairs where only an excerpt of a long text was kept, else empty.
    readers: of a "pasted" text of which we know what printed it, the kinds that can read it; (): any.
    """

    kind: str
    text: str
    origin: str
    command: str | None = None
    problem: str | None = None
    first_line: int = 1
    numbers: tuple[int, ...] = ()
    readers: tuple[str, ...] = ()

    def lines(self) -> list[tuple[int, str]]:
        """Each line with its number in the original."""
        texts = self.text.split("\n")
        if self.numbers:
            return list(zip(self.numbers, texts, strict=False))
        return [(self.first_line + index, text) for index, text in enumerate(texts)]

    def ref(self, number: int, quote: str, about: str = "") -> Ref:
        """A reference to line `number` of the original."""
        quote = quote.strip()
        return Ref(self.origin, number, quote if len(quote) <= MAX_QUOTE else quote[:MAX_QUOTE] + " ...", about)

    def ref_at(self, offset: int, about: str = "") -> Ref:
        """A reference to the line that holds the character at `offset` of the text."""
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        index = self.text.count("\n", 0, start)
        number = self.numbers[index] if index < len(self.numbers) else self.first_line + index
        return self.ref(number, self.text[start : end if end >= 0 else len(self.text)], about)


@dataclass(frozen=True, kw_only=True)
class Fact:
    """What is so. None in a field: nobody said. (): known to be empty."""

    refs: tuple[Ref, ...] = ()
    conflicts: tuple[str, ...] = ()

    def working(self) -> bool:
        """Whether the fact shows a GPU at work. Without one that does, a report is never CLEAR."""
        return False

    def about(self, *names: str) -> tuple[Ref, ...]:
        """The lines that carry these fields; all lines of the fact where none is marked so."""
        return tuple(ref for ref in self.refs if ref.about in names) or self.refs[:3]

    def join(self, other: Self) -> Self:
        """What both sources say. The first keeps its word where they contradict; the conflict is kept."""
        values: dict[str, Any] = {}
        conflicts = [*self.conflicts, *(c for c in other.conflicts if c not in self.conflicts)]
        for name in field_names(self):
            mine, theirs = getattr(self, name), getattr(other, name)
            if name == "conflicts" or theirs is None or mine == theirs:
                continue
            if mine is None:
                values[name] = theirs
            elif isinstance(mine, tuple) and isinstance(theirs, tuple):
                values[name] = mine + tuple(item for item in theirs if item not in mine)
            elif isinstance(mine, Mapping) and isinstance(theirs, Mapping):
                values[name] = {**theirs, **mine}
            else:
                conflicts.append(f"{name}: {mine} / {theirs}")
        return replace(self, **values, conflicts=tuple(dict.fromkeys(conflicts)))


class Unknown(Exception):
    """A rule cannot tell. `settle` lists commands that would."""

    def __init__(self, what: str, settle: Iterable[str] = ()) -> None:
        super().__init__(what)
        self.what = what
        self.settle = tuple(settle)


def known(value: T | None, what: str, *settle: str) -> T:
    """The value, or the end of the rule as UNKNOWN: cannot tell `what`."""
    if value is None:
        raise Unknown(what, settle)
    return value


@dataclass(frozen=True, slots=True)
class Text:
    """A rule's words in one language, with {placeholders} for the finding's values.

    Words that need a value which may be missing stand inside its placeholder: "Xid 79{bus:, at *}", "{what:the * wheel|the wheel}".
    """

    title: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class Words:
    """A value of a finding that is itself language: a table's sentence about an error code."""

    en: str
    zh: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Names a recipe of `knowledge/recipes.toml`; the values fill its placeholders."""

    recipe: str
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edit:
    """A safe change of a source text: the characters between two places are replaced. Lines from 1, columns from 0 in characters."""

    origin: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """One repair command for this platform; looks: it only tells more (or tries whether it works now) and repairs nothing."""

    run: str
    risk: Risk
    undo: str = ""
    looks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong here. The engine fills in `slug`, `layer`, and `refs` where the rule gave none.

    edits: changes of the user's source that repair it without changing what it computes; `ongpu lint --fix` applies them.
    """

    subject: str = ""
    certainty: Certainty = Certainty.CERTAIN
    severity: Severity | None = None
    values: Mapping[str, object] = field(default_factory=dict)
    variant: str = ""
    fixes: tuple[Fix, ...] = ()
    refs: tuple[Ref, ...] = ()
    edits: tuple[Edit, ...] = ()
    rule: "Rule | None" = None

    @property
    def slug(self) -> str:
        """The slug of the rule that found it."""
        return self.rule.slug if self.rule else ""

    @property
    def weight(self) -> Severity:
        """Its own severity, else its rule's."""
        return self.severity if self.severity is not None else self.rule.severity if self.rule else Severity.NOTE

    def text(self, lang: str) -> Text:
        """The words, filled with the values; "unknown" stands where one was not given and the text does not provide for that."""
        if self.rule is None:
            return Text("", "", "")
        texts = self.rule.variants.get(self.variant) or (self.rule.en, self.rule.zh)
        text = texts[1] if lang == "zh" else texts[0]
        values = _Values(_Missing(_UNKNOWN[lang == "zh"]))
        given = {name: _plain(value, lang) for name, value in self.values.items() if value is not None}
        values |= {name: _Known(shown) for name, shown in given.items() if shown != UNGIVEN}
        aside = "（未知）" if lang == "zh" else " (unknown)"  # brackets that hold nothing else are left out
        return Text(*(part.format_map(values).replace(aside, "") for part in (text.title, text.why, text.fix)))


_UNKNOWN = ("unknown", "未知")


class _Known(str):
    """A value in a rule's text. `{driver:, driver *|, no driver}` is the part before the bar, with the value for its star,
    where the value is known, and the part after it (or nothing) where it is not."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        if not _is_phrase(spec):
            return super().__format__(spec)
        there, _, missing = spec.partition("|")
        return there.replace("*", self, 1) if self else missing


class _Missing(str):
    """Stands for a value that nobody told."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return spec.partition("|")[2] if _is_phrase(spec) else str(self)


def _is_phrase(spec: str) -> bool:
    return "*" in spec or "|" in spec


class _Values(dict[str, str]):
    def __init__(self, missing: str) -> None:
        self.missing = missing

    def __missing__(self, key: str) -> str:
        return self.missing


def _plain(value: object, lang: str) -> str:
    if isinstance(value, Words):
        return value.zh if lang == "zh" else value.en
    if isinstance(value, (tuple, list, set, frozenset)):
        return ("、" if lang == "zh" else ", ").join(_plain(item, lang) for item in value)
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A cause that can be found. Its needs are the parameters of `check`: facts, those with `| None` optional.

    hides: slugs that are mere consequences of this one.
    settle: commands that would settle it where it cannot tell.
    variants: other words for the same cause, by name: (English, Chinese), with their own placeholders.
    """

    slug: str
    layer: Layer
    severity: Severity
    check: Callable[..., Iterator[Finding]]
    en: Text
    zh: Text
    see: tuple[str, ...]
    hides: tuple[str, ...] = ()
    settle: tuple[str, ...] = ()
    variants: Mapping[str, tuple[Text, Text]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Get:
    """How the live machine is asked: one of argv, path (a glob; read as text), listing (a glob; names, modes and
    owners) or call ("module:function" of `hosts`, which takes the machine and the limit and returns text and problem).

    limit: seconds. kind: the evidence's kind, where it is not the source's own: "pasted" lets every source read it.
    """

    argv: tuple[str, ...] = ()
    path: str = ""
    listing: str = ""
    call: str = ""
    limit: float = 2.0
    only: str = ""  # "", "linux", "windows", "macos"
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One tool whose output is read.

    looks_like: whether a pasted text may hold its output (cheap; several sources may read the same text).
    gives: the facts that it can yield; lets the engine say which command would settle an unknown.
    """

    kind: str
    read: Callable[[Evidence], Iterable[Fact]]
    looks_like: Callable[[Evidence], bool]
    gives: tuple[type[Fact], ...]
    get: tuple[Get, ...] = ()
    settle: str = ""  # the command that a user would run to get this evidence


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one rule answered."""

    rule: Rule
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    because: str = ""
    settle: tuple[str, ...] = ()
    asked: bool = True  # False: a fact that it needs was not given, so it never ran


@dataclass(frozen=True, slots=True)
class Unread:
    """Evidence that a source could not read, and why."""

    source: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole answer. `findings` are the causes, the root first; `hidden` their mere consequences; `signs`: of an unknown, the
    lines that say that the GPU is not used, or that something failed, and that no finding explains."""

    subject: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    hidden: tuple[Finding, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    unknown: tuple[Outcome, ...] = ()
    unread: tuple[Unread, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    facts: tuple[Fact, ...] = ()
    signs: tuple[Ref, ...] = ()

    def fact(self, kind: type[T]) -> T | None:
        """The fact of that type, if the evidence gave it."""
        return next((fact for fact in self.facts if isinstance(fact, kind)), None)
