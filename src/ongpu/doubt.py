"""What in a text speaks against "clear", and which commands would settle an "unknown".

A text is clear only where something in it shows a GPU at work, or its alarming lines are explained, and no line is left that
says that the GPU is not used, or that something failed. Of a machine that was asked only its facts count: the rules judge it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from ongpu.facts import intent
from ongpu.facts.driver import SystemPackages
from ongpu.facts.framework import Jax, OnnxRuntime, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.program import Program
from ongpu.facts.symptoms import Hit, Symptoms
from ongpu.knowledge import signs
from ongpu.lazy import dataclass, lazy
from ongpu.model import Certainty, Evidence, Fact, Finding, Outcome, Ref, Rule, Verdict

MOST = 3  # questions that an unknown is told with
LOOKED_AT = 400  # failing lines of one text that are looked at
SHOWN = 120  # characters of a line in a question
_FAILS = lazy(
    r"^[ \t>|]{0,12}(?:[\w.]{1,80}\.)?[A-Z]\w{0,60}(?:Error|Exception|Exit)(?::[ \t]|[ \t]*$)|Traceback \(most recent call last\)"
    r"|\b(?:CUDA|NVML|CUBLAS|CUDNN|CUSOLVER|NCCL)_(?:ERROR|STATUS)_(?!SUCCESS)[A-Z_]{3,40}|\bcudaError(?!Success\b|s?\b)[A-Z]\w{2,40}"
    r"|(?:^|[\s\[])(?:ERROR|FATAL|fatal error|error)(?::(?![ \t]*[-+]?[\d.])|\]|[ \t]+-)|\bfailed!|(?:RmInitAdapter|rm_init_adapter) failed"
    r"|\bSegmentation fault|core dumped|cannot open shared object",
    re.MULTILINE,
)
_NUMBERS = lazy(r"0x[0-9a-fA-F]+|\d+")


@dataclass(frozen=True, slots=True)
class Doubt:
    """A sign that the GPU is not used, or that something failed. questions: keys of the table, the likeliest first; lead: it is
    no sign of a fault, but tells what to ask."""

    questions: tuple[str, ...]
    refs: tuple[Ref, ...]
    lead: bool = False


def doubts(evidence: Sequence[Evidence], facts: Sequence[Fact], findings: Iterable[Finding]) -> tuple[Doubt, ...]:
    """What speaks against "clear" and no finding explains, the most telling first."""
    symptoms = next((fact for fact in facts if isinstance(fact, Symptoms)), None)
    told = [item for item in evidence if item.kind == "pasted"]
    if not told or intent.on_purpose(symptoms):
        return ()
    findings = tuple(findings)
    explained = _explained(findings, symptoms)
    found = [one for one in _signs(facts, symptoms) if one.lead or not any(_line(ref) in explained for ref in one.refs)]
    if not intent.goes_on(symptoms) and not any(finding.slug == "not-gpu-related" for finding in findings):
        known = {_line(ref) for one in found for ref in one.refs} | explained
        found += [Doubt(("healthy:complaint",), (ref,)) for ref in _failing(told, known, facts)]
    return tuple(found)


def lines(doubted: Iterable[Doubt]) -> tuple[Ref, ...]:
    """Their lines, each once, for a reader."""
    refs = {_line(ref): ref for one in doubted if not one.lead for ref in one.refs[:2]}
    return tuple(refs.values())[:MOST]


def _signs(facts: Sequence[Fact], symptoms: Symptoms | None) -> Iterator[Doubt]:
    for sign in signs.signs():
        if symptoms and symptoms.has(*sign.unless):
            continue
        refs = list(symptoms.cite(*sign.symptoms, most=2)) if symptoms else []
        for fact in facts:
            refs += _FACTS[sign.facts](fact) if sign.facts else ()
        if refs:
            yield Doubt(sign.ask, tuple(refs[:4]), sign.lead)


def _sees_none(fact: Fact) -> tuple[Ref, ...]:
    if not isinstance(fact, Torch):
        return ()
    no = fact.available is False or fact.computed is False or any(conflict.startswith("available:") for conflict in fact.conflicts)
    return fact.about("available") if no else ()


_FACTS: dict[str, Callable[[Fact], tuple[Ref, ...]]] = {
    "torch-none": _sees_none,
    "tf-none": lambda fact: fact.about("gpus") if isinstance(fact, TensorFlow) and fact.gpus == 0 else (),
    "jax-none": lambda fact: fact.about("backend") if isinstance(fact, Jax) and fact.backend == "cpu" else (),
    "ort-none": lambda fact: fact.refs[:2] if isinstance(fact, OnnxRuntime) and _without_cuda(fact) else (),
    "card-error": lambda fact: tuple(g.ref for g in fact.gpus if g.error and g.ref) if isinstance(fact, Gpus) else (),
    "driver-replaced": lambda fact: fact.refs[:2] if isinstance(fact, SystemPackages) and fact.upgrades else (),
}  # fmt: skip


def _without_cuda(ort: OnnxRuntime) -> bool:
    return ort.cpu_session or (ort.providers is not None and not ort.offers_cuda)


def _line(ref: Ref) -> tuple[str, int]:
    return (ref.source, ref.line)


def _explained(findings: Iterable[Finding], symptoms: Symptoms | None) -> set[tuple[str, int]]:
    """The lines that some finding shows, and those that hold the same known words as one of them."""
    lines = {_line(ref) for finding in findings for ref in finding.refs}
    hits = symptoms.hits if symptoms else ()
    alike = {hit.name for hit in hits if _line(hit.ref) in lines and _explains(hit)}
    return lines | {_line(hit.ref) for hit in hits if hit.name in alike}


def _explains(hit: Hit) -> bool:
    return hit.name.startswith(("harmless-", "other-"))


def _failing(evidence: Iterable[Evidence], known: set[tuple[str, int]], facts: Iterable[Fact]) -> Iterator[Ref]:
    """The first line that says that something failed, and that nothing explains; none of a program, where words are code."""
    if any(isinstance(fact, Program) for fact in facts):
        return
    for item in evidence:
        explained = {_shape(line) for number, line in item.lines() if (item.origin, number) in known}
        for count, match in enumerate(_FAILS.finditer(item.text)):
            ref = item.ref_at(match.end() - 1)
            if count >= LOOKED_AT:
                break
            if _line(ref) not in known and _shape(ref.quote) not in explained:
                yield ref
                return


def _shape(line: str) -> str:
    return _NUMBERS.sub("#", line.strip())


def clear(facts: Iterable[Fact], findings: Iterable[Finding]) -> bool:
    """Whether something shows that all is well: a GPU at work, a note that is more than a possibility, or any on a program."""
    source = any(isinstance(fact, Program) for fact in facts)
    return any(fact.working() for fact in facts) or any(source or finding.certainty > Certainty.POSSIBLE for finding in findings)


def questions(
    doubted: Sequence[Doubt], facts: Sequence[Fact], findings: Iterable[Finding], outcomes: Iterable[Outcome], *, alone: bool
) -> tuple[Outcome, ...]:
    """What would settle an unknown: first what is merely possible, then the causes that such signs have, most often the first.

    Left out is what is known already. alone: no rule asked anything; with no sign either, the question is whether the GPU is
    used, where the text is about one.
    """
    rules = {outcome.rule.slug: outcome.rule for outcome in outcomes}
    symptoms = next((fact for fact in facts if isinstance(fact, Symptoms)), None)
    asked: dict[tuple[str, ...], Outcome] = {}

    def ask(rule: Rule | None, because: str, settle: tuple[str, ...]) -> None:
        told = {command for outcome in asked.values() for command in outcome.settle}
        if rule is not None and len(asked) < MOST and not set(settle) <= told:
            asked[settle] = Outcome(rule, Verdict.UNKNOWN, (), because, settle[:2])

    for finding in findings:
        if finding.certainty is Certainty.POSSIBLE and finding.rule:
            ask(rules.get(finding.slug), signs.SO, finding.rule.settle)
    for one in sorted(doubted, key=lambda doubt: doubt.lead):
        for key in one.questions:
            question = signs.question(key)
            if not _answered(question, facts) and _called_for(question, facts, symptoms):
                slug = key.partition(":")[0]
                rule = rules.get(slug)
                line = one.refs[0].quote[:SHOWN] if one.refs else ""
                ask(rule, question.en.replace("{line}", line), question.settle or (rule.settle if rule else ()))
    if alone and not asked and about_a_gpu(facts, symptoms):
        question = signs.question("healthy")
        ask(rules.get("healthy"), question.en, question.settle)
    return tuple(asked.values())


def _answered(question: signs.Question, facts: Sequence[Fact]) -> bool:
    return bool(question.known) and all(_is_known(name, facts) for name in question.known)


def _called_for(question: signs.Question, facts: Sequence[Fact], symptoms: Symptoms | None) -> bool:
    if not question.when:
        return True
    named = [name for name in question.when if name[0].isupper()]
    return bool(symptoms and symptoms.has(*set(question.when) - set(named))) or any(_holds(name, facts) for name in named)


def _field(name: str, facts: Sequence[Fact]) -> object:
    kind, _, field = name.partition(".")
    fact = next((fact for fact in facts if type(fact).__name__ == kind), None)
    return fact if fact is None or not field else getattr(fact, field)


def _is_known(name: str, facts: Sequence[Fact]) -> bool:
    return _field(name, facts) not in (None, ())


def _holds(name: str, facts: Sequence[Fact]) -> bool:
    return bool(_field(name, facts))


# Facts that nearly every text gives, whatever it is about.
_COMMON = frozenset({"Symptoms", "Commands", "Traceback", "Machine", "Python", "Program", "TrainingLog", "Term", "Processes"})


def about_a_gpu(facts: Sequence[Fact], symptoms: Symptoms | None) -> bool:
    """Whether the text is about a GPU, its driver or a framework at all."""
    named = bool(symptoms and symptoms.has("nvidia-told", "gpu-wanted", "torch-user", "harmless-other-framework", "gpu-load-told"))
    return named or any(type(fact).__name__ not in _COMMON for fact in facts)
