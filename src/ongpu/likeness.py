"""A guess by words alone, where no rule found anything in pasted text. It is told as such; the verdict stays unknown."""

import re
import string
from collections.abc import Iterable, Sequence

from ongpu.facts import intent
from ongpu.facts.container import Container, Kubernetes
from ongpu.facts.hardware import Gpus, Pci
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy, replace
from ongpu.model import Certainty, Evidence, Fact, Finding, Outcome, Ref, Rule, Severity, Text, Words

LEAST = 0.7  # share of the likeness: 85 % of such guesses are right in cross-validation (tools/learn_likeness.py --curve)
MOST_LINES = 1000  # different lines: longer texts are unlike all reports that were learnt from
SHOWN = 3  # lines that a guess shows

# Causes that the card's generation decides: where the card is known their rules have judged, and words know no better.
_BY_CARD = frozenset(
    {"compute-capability-too-old", "compute-capability-too-new", "open-kernel-module-required", "open-kernel-module-unsupported-gpu"}
)

# Words that rule a cause out, however like the rest of the text is.
_NEVER = {
    "cudnn-benchmark-variable-shapes": lazy(r"cudnn\.benchmark\s{0,4}=\s{0,4}False"),
    "driver-capabilities-missing": lazy(r"\w\.dll\b", re.IGNORECASE),  # Windows: no container of NVIDIA's
}

# Causes that one value decides: where it is known their rules have judged by it.
_BY_VALUE: dict[str, tuple[type[Fact], str]] = {
    "driver-capabilities-missing": (Container, "capabilities"),
    "shm-too-small": (Container, "shm_bytes"),
    "k8s-no-gpu-request": (Kubernetes, "pods"),
    "thermal-throttle": (Gpus, "temperature_slowdown"),
    "exclusive-process-mode": (Gpus, "compute_mode"),
    "vgpu-license": (Gpus, "license"),
    "ecc-uncorrectable": (Gpus, "ecc_uncorrected"),
    "fan-failure": (Gpus, "fan"),
}

_WORDS = (
    Text(
        title="Perhaps {slug}: {title}",
        why="No rule is sure. Reports with words like these most often had this cause; nothing here proves it. "
        "The lines shown are those that weighed most.",
        fix="Check it before you change anything{settle}. The cause and its remedy: ongpu explain {slug}. "
        "On the machine itself, ongpu doctor can judge by facts.",
    ),
    Text(
        title="可能是 {slug}：{title}",
        why="没有规则能够确定。措辞与此相近的报告，原因多为这一项；但现有证据并不能证明。所列各行是权重最大的几行。",
        fix="改动之前请先核实{settle}。原因与修复方法见：ongpu explain {slug}。在出问题的机器上运行 ongpu doctor，可根据事实判断。",
    ),
)


def guess(
    evidence: Sequence[Evidence], facts: Sequence[Fact], findings: Sequence[Finding], outcomes: Sequence[Outcome]
) -> tuple[Finding, ...]:
    """The cause that reports with such words most often had, or nothing.

    Never where a rule found or noted something, where a GPU is seen at work, or where a machine was asked.
    """
    told = [item for item in evidence if item.kind != "unread"]
    if findings or any(item.kind != "pasted" for item in told) or any(fact.working() for fact in facts):
        return ()
    symptoms = next((fact for fact in facts if isinstance(fact, Symptoms)), None)
    if intent.on_purpose(symptoms) or intent.goes_on(symptoms) or not intent.complains_plainly(told):
        return ()
    if len({line for item in told for line in item.text.split("\n")}) > MOST_LINES:
        return ()
    from ongpu.knowledge import likeness  # loaded only here: most texts need no guess

    likely = likeness.table().score(likeness.words(told))
    if not likely or likely[0][1] < LEAST or likely[0][0] in likeness.BENIGN:
        return ()
    slug = likely[0][0]
    if (slug in _BY_CARD and any(isinstance(fact, (Gpus, Pci)) for fact in facts)) or _judged(slug, facts):
        return ()
    if slug in _NEVER and any(_NEVER[slug].search(item.text) for item in told):
        return ()
    rule = next((outcome.rule for outcome in outcomes if outcome.rule.slug == slug), None)
    if rule is None or rule.severity is Severity.NOTE:
        return ()
    return (
        Finding(
            rule=replace(rule, variants={**rule.variants, likeness.VARIANT: _WORDS}),
            certainty=Certainty.POSSIBLE,
            severity=min(rule.severity, Severity.WARNING),
            variant=likeness.VARIANT,
            values={"slug": slug, "title": Words(_bare(rule.en.title), _bare(rule.zh.title)), "settle": _settle(rule)},
            refs=_refs(told, slug),
        ),
    )


def _judged(slug: str, facts: Sequence[Fact]) -> bool:
    """Whether the value that decides this cause is known."""
    kind, name = _BY_VALUE.get(slug, (None, ""))
    if kind is None:
        return False
    holders = [fact for fact in facts if isinstance(fact, kind)]
    cards = [gpu for fact in holders if isinstance(fact, Gpus) for gpu in fact.gpus]
    return any(getattr(item, name, None) not in (None, ()) for item in (*holders, *cards))


def _bare(title: str) -> str:
    """A rule's title without values: "..." stands for each."""
    parts = ""
    for text, name, spec, _ in string.Formatter().parse(title):
        optional = spec and ("*" in spec or "|" in spec or spec == ".0")
        parts += text + ("…" if name and not optional else "")
    return re.sub(r"…(?:[\s,/]*…)+", "…", parts)


def _settle(rule: Rule) -> Words:
    commands = "; ".join(rule.settle[:2])
    return Words(f", with: {commands}" if commands else "", f"，可运行：{commands}" if commands else "")


def _refs(evidence: Iterable[Evidence], slug: str) -> tuple[Ref, ...]:
    """The lines that spoke most for the cause, in the order of the text."""
    from ongpu.knowledge import likeness

    weighed: dict[str, tuple[float, Ref]] = {}
    for item in evidence:
        for number, line in item.lines():
            weight = likeness.table().speaks(slug, likeness.tokens(line))
            if weight > 0 and line.strip() not in weighed:
                weighed[line.strip()] = (weight, item.ref(number, line))
    best = sorted(weighed.values(), key=lambda pair: -pair[0])[:SHOWN]
    return tuple(ref for _, ref in sorted(best, key=lambda pair: (pair[1].source, pair[1].line)))
