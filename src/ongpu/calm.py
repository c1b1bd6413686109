"""What is merely possible is told as a note where nobody complains, or where the run is shown to go on; and so is, of a machine,
what its kernel log tells of programs that have ended: an event, not its condition."""

from collections.abc import Iterable, Sequence

from ongpu.facts import intent
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import replace
from ongpu.model import Certainty, Evidence, Fact, Finding, Layer, Severity

KERNEL_LOG = ("dmesg", "journalctl -k", "/var/log/kern", "/var/log/messages", "/var/log/syslog")  # origins, by their beginning


def weighed(findings: Sequence[Finding], facts: Iterable[Fact], evidence: Sequence[Evidence]) -> list[Finding]:
    """The findings, some of them made notes. Of pasted texts those that are merely possible, where nothing is amiss; of a machine
    that was asked those about a program (killed for memory, Xid 13 or 31) that nothing but the kernel log tells of."""
    if any(item.kind not in ("pasted", "unread") for item in evidence):
        return [replace(f, severity=Severity.NOTE) if _past(f) else f for f in findings]
    doubtful = [f for f in findings if f.certainty is Certainty.POSSIBLE and f.weight > Severity.NOTE]
    if not doubtful:
        return list(findings)
    symptoms = next((fact for fact in facts if isinstance(fact, Symptoms)), None)
    calm = intent.goes_on(symptoms) or intent.on_purpose(symptoms) or not intent.complains(evidence)
    return [replace(f, severity=Severity.NOTE) if calm and f in doubtful else f for f in findings]


def _past(finding: Finding) -> bool:
    """Whether it is about a program, and only the kernel log tells of it: the GPU and the machine are fit for the next one."""
    about_a_program = finding.rule is not None and finding.rule.layer in (Layer.CODE, Layer.SYSTEM)
    return about_a_program and bool(finding.refs) and all(ref.source.startswith(KERNEL_LOG) for ref in finding.refs)
