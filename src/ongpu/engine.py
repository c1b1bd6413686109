"""Evidence -> facts -> outcomes -> report. Every front asks this engine; no front judges."""

import types
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import get_args

from ongpu import calm, doubt, ignored, likeness
from ongpu.index import indexed, names
from ongpu.lazy import replace
from ongpu.model import Certainty, Evidence, Fact, Finding, Outcome, Ref, Report, Rule, Severity, Source, Unknown, Unread, Verdict

PRINTED = ("commands", "nvidia-smi", "symptoms")  # sources without a question of their own, which read what others ask for
FRAMEWORKS = frozenset({"PyTorch", "paddle", "tensorflow", "onnxruntime", "cupy", "mxnet", "dgl", "faiss", "jax"})  # subjects
MAX_REFS = 12  # lines of evidence that one finding shows


def _modules(package: str) -> Iterable[ModuleType]:
    return (import_module(name) for name in names(package))


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule: found by walking the package, in the order layer, slug."""
    found = [module.RULE for module in _modules("ongpu.rules") if hasattr(module, "RULE")]
    return tuple(sorted(found, key=lambda rule: (rule.layer, rule.slug)))


@cache
def all_sources() -> tuple[Source, ...]:
    """Every source, each loaded when it is first asked to read; straight from its module where the index does not name it."""
    return indexed()


def loaded_sources() -> tuple[Source, ...]:
    """Every source, all modules loaded."""
    return tuple(source for module in _modules("ongpu.sources") for source in getattr(module, "SOURCES", ()))


def prepare() -> Iterator[None]:
    """Load what reading and judging a machine's evidence will need, a piece at each step: taken while the machine is asked.

    First the rules, which are all needed; then the sources that will read.
    """
    for _ in _modules("ongpu.rules"):
        yield
    yield from rehearse(source for source in all_sources() if source.get or source.kind in PRINTED)


def rehearse(sources: Iterable[Source]) -> Iterator[None]:
    """Give each source an empty text, for which it loads its modules and compiles its patterns."""
    for source in sources:
        with suppress(Exception):  # they may expect more of their own kind of text
            list(source.read(Evidence("pasted", "-", "", readers=PRINTED)))
        yield


def collect(evidence: Iterable[Evidence], sources: Sequence[Source]) -> tuple[list[Fact], list[Unread]]:
    """The facts that the evidence holds, one of each type, and what could not be read."""
    facts: dict[type[Fact], Fact] = {}
    unread: list[Unread] = []
    for item in evidence:
        if item.problem and not item.text:
            unread.append(Unread(item.origin, item.problem))
        read = False
        for source in sources:
            try:
                if source.kind != item.kind:
                    if item.kind != "pasted" or (item.readers and source.kind not in item.readers):
                        continue
                    if not source.looks_like(item):
                        continue
                read = True
                for fact in source.read(item):
                    before = facts.get(type(fact))
                    facts[type(fact)] = before.join(fact) if before else fact
            except Exception as error:  # one bad text must not stop the others; the reader is told
                unread.append(Unread(item.origin, f"{source.kind}: {type(error).__name__}: {error}"))
        if not read and item.text.strip():
            unread.append(Unread(item.origin, "nothing in it was recognised"))
    return list(facts.values()), unread


def _needs(rule: Rule) -> list[tuple[type[Fact], bool]]:
    """The facts that a rule takes, in order, and whether it can do without."""
    needs: list[tuple[type[Fact], bool]] = []
    for name, annotation in rule.check.__annotations__.items():
        if name == "return":
            continue
        if isinstance(annotation, types.UnionType):
            needs.append((next(a for a in get_args(annotation) if a is not type(None)), True))
        else:
            needs.append((annotation, False))
    return needs


def judge(rule: Rule, facts: dict[type[Fact], Fact]) -> Outcome:
    """What one rule answers to these facts."""
    given: list[Fact | None] = []
    for kind, optional in _needs(rule):
        fact = facts.get(kind)
        if fact is None and not optional:
            return Outcome(rule, Verdict.UNKNOWN, (), f"nothing told about {kind.__name__}", asked=False)
        given.append(fact)
    if not any(given):
        return Outcome(rule, Verdict.UNKNOWN, (), "nothing told that it is judged from", asked=False)
    findings: list[Finding] = []
    try:
        for finding in rule.check(*given):
            refs = finding.refs or tuple(ref for fact in given if fact for ref in fact.refs[:4])
            findings.append(replace(finding, rule=rule, refs=_once(refs)[:MAX_REFS]))
    except Unknown as unknown:
        if not findings:
            return Outcome(rule, Verdict.UNKNOWN, (), unknown.what, unknown.settle or rule.settle)
    except Exception:  # a rule that crashes is told, and stops nothing
        import traceback

        return Outcome(rule, Verdict.CRASHED, (), traceback.format_exc(limit=-3))
    return Outcome(rule, Verdict.FOUND if findings else Verdict.CLEAR, tuple(findings))


def _once(refs: Iterable[Ref]) -> tuple[Ref, ...]:
    """Each line once, whichever fields of the facts it carries."""
    kept: dict[tuple[str, int, str], Ref] = {}
    for ref in refs:
        kept.setdefault((ref.source, ref.line, ref.quote), ref)
    return tuple(kept.values())


def _depth(finding: Finding) -> tuple[object, ...]:
    """Sort key: what was merely possible comes last; then severity, certainty, the deepest layer."""
    weight = finding.weight
    layer = finding.rule.layer if finding.rule else 0
    possible = finding.certainty is Certainty.POSSIBLE
    return (weight is Severity.NOTE, possible, -weight, -finding.certainty, layer, finding.slug)


def _hides(cause: Finding, effect: Finding) -> bool:
    """Whether the one explains the other: its rule says so, it is no note, it is at least as certain (or likely), and they are not
    about two GPUs or two frameworks."""
    named = cause.rule is not None and effect.slug in cause.rule.hides
    if not named or cause.weight is Severity.NOTE or cause.certainty < min(effect.certainty, Certainty.LIKELY):
        return False
    apart = cause.subject != effect.subject and cause.subject.startswith("GPU ") and effect.subject.startswith("GPU ")
    frameworks = cause.subject != effect.subject and {cause.subject, effect.subject} <= FRAMEWORKS
    return not (apart or frameworks)


def _hide(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Apart: causes, and consequences of causes. Of two that explain each other the first stays."""
    shown: list[Finding] = []
    hidden: list[Finding] = []
    for place, finding in enumerate(findings):
        explained = any(_hides(other, finding) for other in findings[:place]) or any(
            _hides(other, finding) and not _hides(finding, other) for other in findings[place + 1 :]
        )
        (hidden if explained else shown).append(finding)
    return shown, hidden


def diagnose(
    evidence: Sequence[Evidence],
    subject: str,
    rules: Sequence[Rule] | None = None,
    sources: Sequence[Source] | None = None,
) -> Report:
    """The whole answer to this evidence. Pure: the same evidence gives the same report."""
    found, unread = collect(evidence, all_sources() if sources is None else sources)
    facts = {type(fact): fact for fact in found}
    outcomes = [judge(rule, facts) for rule in (all_rules() if rules is None else rules)]
    told = ignored.left((f for outcome in outcomes for f in outcome.findings), evidence)
    findings = sorted(calm.weighed(told, found, evidence), key=_depth)
    shown, hidden = _hide(findings)
    unknown = [o for o in outcomes if o.verdict is Verdict.UNKNOWN and o.asked]
    crashed = any(o.verdict is Verdict.CRASHED for o in outcomes)
    faulty = any(finding.weight > Severity.NOTE for finding in shown)
    doubts = () if faulty else doubt.doubts(evidence, found, findings)
    if faulty:
        verdict = Verdict.FOUND
    elif crashed:
        verdict = Verdict.CRASHED
    elif unknown or not doubt.clear(found, shown) or any(not one.lead for one in doubts):
        verdict = Verdict.UNKNOWN
    else:
        verdict = Verdict.CLEAR
    if verdict is Verdict.UNKNOWN:  # a guess leaves it so
        shown += likeness.guess(evidence, found, shown, outcomes)
        pasted = any(item.kind == "pasted" for item in evidence)
        unknown += doubt.questions(doubts, found, shown, outcomes, alone=pasted and not unknown)
    return Report(
        subject=subject,
        verdict=verdict,
        findings=tuple(shown),
        hidden=tuple(hidden),
        outcomes=tuple(outcomes),
        unknown=tuple(unknown),
        unread=tuple(unread),
        evidence=tuple(evidence),
        facts=tuple(found),
        signs=doubt.lines(doubts) if verdict is Verdict.UNKNOWN else (),
    )
