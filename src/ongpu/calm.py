"""What is merely possible is told as a note where nobody complains, or where the run is shown to go on."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ongpu.facts import intent
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy
from ongpu.model import Certainty, Evidence, Fact, Finding, Severity

# A sign of a complaint or of a failure, in output or in the reporter's words.
_AMISS = lazy(
    r"error|exception|fail|fault(?!s?:)|invalid|illegal|refus|denied|unable|unavail|unsupported|mismatch|incompatib|timed? ?out|abort"
    r"|crash|kill|\bhang|\bhung|stuck|\bslow|corrupt|\blost\b|broken|wrong|problem|issue(?!s?/)|trouble|traceback|out of memory|\boom\b"
    r"|\bnan\b|warn"
    r"|drop|\blow\b|\bpoor|idle|degrad|throttl|loud|burn|\bnot (?!active)|n't\b|\bcannot|\bnone\b|\bnever|\bnothing|\bwithout|\bonly\b"
    r"|\bno (?:cuda|gpu|device|nvidia|driver|kernel|such|module|space|process|output|room)|\bwhy\b|instead|(?:[):=]|available) ?false"
    r"|\b0 ?%|xid|miss|insufficient|pending|taint|limit|too (?:old|new|many|small|large|big)|unknown|unspecified|undefined|\bexit|\?\?"
    r"|错|失败|异常|无法|不|没有|未|缺|慢|卡住|卡死|超时|崩溃|为什么|怎么|问题|只用|仍",
    re.IGNORECASE,
)


def weighed(findings: Sequence[Finding], facts: Iterable[Fact], evidence: Sequence[Evidence]) -> list[Finding]:
    """The findings; of those that are merely possible, notes are made where nothing is amiss. Never on a machine that was asked."""
    doubtful = [f for f in findings if f.certainty is Certainty.POSSIBLE and f.weight > Severity.NOTE]
    if not doubtful or any(item.kind not in ("pasted", "unread") for item in evidence):
        return list(findings)
    symptoms = next((fact for fact in facts if isinstance(fact, Symptoms)), None)
    calm = intent.goes_on(symptoms) or intent.on_purpose(symptoms) or not any(_AMISS.search(item.text) for item in evidence)
    return [replace(f, severity=Severity.NOTE) if calm and f in doubtful else f for f in findings]
