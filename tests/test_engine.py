"""The engine on small made-up facts, rules and sources: what it promises whatever the rules are."""

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.engine import diagnose
from ongpu.model import (
    Certainty,
    Evidence,
    Fact,
    Finding,
    Layer,
    Ref,
    Rule,
    Severity,
    Source,
    Text,
    Unknown,
    Verdict,
    known,
)

WORDS = Text("t {x}", "w", "f")


@dataclass(frozen=True, kw_only=True)
class Heat(Fact):
    degrees: int | None = None
    places: tuple[str, ...] = ()

    def working(self) -> bool:
        return self.degrees == 20


@dataclass(frozen=True, kw_only=True)
class Noise(Fact):
    level: int | None = None


def rule(slug: str, check: object, layer: Layer = Layer.DRIVER, severity: Severity = Severity.ERROR, hides: tuple[str, ...] = ()) -> Rule:
    return Rule(slug=slug, layer=layer, severity=severity, check=check, en=WORDS, zh=WORDS, see=(), hides=hides)  # type: ignore[arg-type]


def finds(certainty: Certainty = Certainty.CERTAIN, subject: str = "") -> object:
    def check(heat: Heat) -> Iterator[Finding]:
        yield Finding(certainty=certainty, subject=subject, values={"x": heat.degrees})

    return check


def source(*facts: Fact) -> Source:
    return Source(kind="pasted", read=lambda e: facts, looks_like=lambda e: True, gives=(Heat, Noise))


PASTE = [Evidence("pasted", "x", "here")]
HOT = Heat(degrees=90, refs=(Ref("here", 1, "90 C", "degrees"),))


def test_a_finding_is_never_without_grounds() -> None:
    report = diagnose(PASTE, "s", [rule("a", finds())], [source(HOT)])
    assert report.verdict is Verdict.FOUND
    assert report.findings[0].refs == HOT.refs
    assert report.findings[0].text("en").title == "t 90"


def test_the_deepest_layer_comes_first_and_the_merely_possible_last() -> None:
    rules = [
        rule("code", finds(), Layer.CODE),
        rule("guess", finds(Certainty.POSSIBLE), Layer.HARDWARE),
        rule("slow", finds(), Layer.HARDWARE, Severity.WARNING),
        rule("lib", finds(), Layer.LIBRARIES),
        rule("likely", finds(Certainty.LIKELY), Layer.HARDWARE),
    ]
    report = diagnose(PASTE, "s", rules, [source(HOT)])
    assert [f.slug for f in report.findings] == ["lib", "code", "likely", "slow", "guess"]


def test_consequences_are_hidden_not_lost() -> None:
    rules = [rule("cause", finds(), hides=("effect",)), rule("effect", finds(), Layer.CODE)]
    report = diagnose(PASTE, "s", rules, [source(HOT)])
    assert [f.slug for f in report.findings] == ["cause"]
    assert [f.slug for f in report.hidden] == ["effect"]


def test_the_fault_of_one_gpu_does_not_explain_that_of_another() -> None:
    for subject, hidden in (("GPU 1", []), ("GPU 2", ["effect"]), ("", ["effect"])):
        rules = [rule("cause", finds(subject=subject), hides=("effect",)), rule("effect", finds(subject="GPU 2"), Layer.CODE)]
        assert [f.slug for f in diagnose(PASTE, "s", rules, [source(HOT)]).hidden] == hidden


def test_a_guess_hides_nothing() -> None:
    rules = [rule("guess", finds(Certainty.POSSIBLE), hides=("effect",)), rule("effect", finds(), Layer.CODE)]
    assert [f.slug for f in diagnose(PASTE, "s", rules, [source(HOT)]).findings] == ["effect", "guess"]


def test_unknown_is_told_with_what_would_settle_it() -> None:
    def check(heat: Heat) -> Iterator[Finding]:
        known(heat.degrees, "how hot it is", "touch it")
        yield Finding()

    report = diagnose(PASTE, "s", [rule("a", check)], [source(Heat())])
    assert report.verdict is Verdict.UNKNOWN
    assert report.unknown[0].because == "how hot it is"
    assert report.unknown[0].settle == ("touch it",)


def test_a_crash_is_told_and_stops_nothing() -> None:
    def crash(heat: Heat) -> Iterator[Finding]:
        raise ZeroDivisionError
        yield Finding()

    report = diagnose(PASTE, "s", [rule("bad", crash), rule("good", finds())], [source(HOT)])
    assert [f.slug for f in report.findings] == ["good"]
    assert [o.verdict for o in report.outcomes] == [Verdict.CRASHED, Verdict.FOUND]
    assert diagnose(PASTE, "s", [rule("bad", crash)], [source(HOT)]).verdict is Verdict.CRASHED


def test_a_source_that_cannot_read_is_told() -> None:
    def read(evidence: Evidence) -> list[Fact]:
        raise ValueError("line 3: no such field")

    report = diagnose(PASTE, "s", [], [Source(kind="pasted", read=read, looks_like=lambda e: True, gives=())])  # type: ignore[arg-type]
    assert "line 3" in report.unread[0].because


def test_clear_needs_a_fact_that_shows_a_gpu_at_work() -> None:
    def quiet(heat: Heat) -> Iterator[Finding]:
        yield from ()

    assert diagnose(PASTE, "s", [rule("a", quiet)], [source(Heat(degrees=20))]).verdict is Verdict.CLEAR
    assert diagnose(PASTE, "s", [rule("a", quiet)], [source(Heat(degrees=21))]).verdict is Verdict.UNKNOWN
    assert diagnose([], "s", [rule("a", quiet)], []).verdict is Verdict.UNKNOWN


def test_a_note_is_no_fault() -> None:
    report = diagnose(PASTE, "s", [rule("a", finds(), severity=Severity.NOTE)], [source(HOT)])
    assert report.verdict is Verdict.CLEAR


def test_an_optional_fact_may_be_missing_but_not_all_of_them() -> None:
    def check(heat: Heat | None, noise: Noise | None) -> Iterator[Finding]:
        yield Finding()

    assert diagnose(PASTE, "s", [rule("a", check)], [source(Noise(level=1))]).verdict is Verdict.FOUND
    assert not diagnose(PASTE, "s", [rule("a", check)], [source()]).findings


def test_join_keeps_the_first_word_and_the_conflict() -> None:
    joined = Heat(degrees=1, places=("a",)).join(Heat(degrees=2, places=("b", "a")))
    assert joined.degrees == 1
    assert joined.places == ("a", "b")
    assert joined.conflicts == ("degrees: 1 / 2",)


@settings(derandomize=True, deadline=None)
@given(st.none() | st.integers(), st.none() | st.integers(), st.lists(st.text(max_size=3)).map(tuple))
def test_join_loses_nothing(one: int | None, two: int | None, places: tuple[str, ...]) -> None:
    joined = Heat(degrees=one).join(Heat(degrees=two, places=places))
    assert joined.degrees == (two if one is None else one)
    assert set(places) <= set(joined.places)
    assert bool(joined.conflicts) is (one is not None and two is not None and one != two)


def test_unknown_after_a_finding_keeps_the_finding() -> None:
    def check(heat: Heat) -> Iterator[Finding]:
        yield Finding()
        raise Unknown("more")

    assert diagnose(PASTE, "s", [rule("a", check)], [source(HOT)]).verdict is Verdict.FOUND


def test_of_two_that_explain_each_other_the_first_stays() -> None:
    rules = [rule("a", finds(), hides=("b",)), rule("b", finds(), Layer.CODE, hides=("a",))]
    report = diagnose(PASTE, "s", rules, [source(HOT)])
    assert [f.slug for f in report.findings] == ["a"]
    assert [f.slug for f in report.hidden] == ["b"]
