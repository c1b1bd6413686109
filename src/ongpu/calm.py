"""What is merely possible is told as a note where nobody complains, or where the run is shown to go on."""

from collections.abc import Iterable, Sequence

from ongpu.facts import intent
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import replace
from ongpu.model import Certainty, Evidence, Fact, Finding, Severity


def weighed(findings: Sequence[Finding], facts: Iterable[Fact], evidence: Sequence[Evidence]) -> list[Finding]:
    """The findings; of those that are merely possible, notes are made where nothing is amiss. Never on a machine that was asked."""
    doubtful = [f for f in findings if f.certainty is Certainty.POSSIBLE and f.weight > Severity.NOTE]
    if not doubtful or any(item.kind not in ("pasted", "unread") for item in evidence):
        return list(findings)
    symptoms = next((fact for fact in facts if isinstance(fact, Symptoms)), None)
    calm = intent.goes_on(symptoms) or intent.on_purpose(symptoms) or not intent.complains(evidence)
    return [replace(f, severity=Severity.NOTE) if calm and f in doubtful else f for f in findings]
