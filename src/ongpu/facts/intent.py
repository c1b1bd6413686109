"""What the report says of its own course: that something is meant so, or that the run goes on."""

import re
from collections.abc import Iterable

from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy
from ongpu.model import Evidence, Ref

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


def on_purpose(symptoms: Symptoms | None) -> bool:
    """Whether the reporter says that the setting (CPU, an error provoked by a test) is meant so."""
    return bool(symptoms and symptoms.has("told-on-purpose"))


def goes_on(symptoms: Symptoms | None) -> bool:
    """Whether the run is shown, or said, to go on past its warnings, and nothing ends it."""
    return bool(symptoms and symptoms.has("run-goes-on", "told-goes-on") and not symptoms.has("run-ends", "slow-told-plainly"))


def lines(symptoms: Symptoms | None) -> tuple[Ref, ...]:
    """The lines that say so."""
    return symptoms.cite("told-on-purpose", "run-goes-on", "told-goes-on", most=1) if symptoms else ()


def complains(evidence: Iterable[Evidence]) -> bool:
    """Whether any text holds a sign that something is amiss: likeness cannot tell "License Status: Licensed" from its failure."""
    return any(_AMISS.search(item.text) for item in evidence)
