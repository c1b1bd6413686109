"""What the report says of its own course: that something is meant so, or that the run goes on."""

import re
from collections.abc import Iterable

from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy
from ongpu.model import Evidence, Ref

# Signs of a complaint or of a failure, in output or in the reporter's words: plain ones, and weaker ones, which stand in
# healthy output too.
_PLAIN = (
    r"error|exception|fail|invalid|illegal|refus|denied|unable|unavail|unsupported|mismatch|incompatib|timed? ?out|abort|crash|stuck"
    r"|corrupt|broken|wrong|problem|trouble|traceback|out of memory|warn|n't\b"
    r"|\b(?:nan|oom|xid|lost|missing|hang|hung|killed|killing|cannot|never|nothing|without|only|why|instead|none)\b"
    r"|错|失败|异常|无法|不能|不了|不到|没有|未|缺|慢|卡住|卡死|超时|崩溃|为什么|怎么|问题|只用|仍"
)
_AMISS = lazy(
    _PLAIN + r"|fault(?!s?:)|kill|\bhang|\bhung|\bslow|issue(?!s?/)|drop|\blow\b|\bpoor|idle|degrad|throttl|loud|burn|\bnot (?!active)"
    r"|\bno (?:cuda|gpu|device|nvidia|driver|kernel|such|module|space|process|output|room)|(?:[):=]|available) ?false|\b0 ?%|miss"
    r"|insufficient|pending|taint|limit|too (?:old|new|many|small|large|big)|unknown|unspecified|undefined|\bexit|\?\?|不",
    re.IGNORECASE,
)
_PLAINLY_AMISS = lazy(
    _PLAIN + r"|fault|issue|unrecogni|\bslow(?:er|ly|ness)?\b|\b(?:not|no|false|how|help|still)\b",
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
    """Whether any text holds a sign that something may be amiss."""
    return any(_AMISS.search(item.text) for item in evidence)


def complains_plainly(evidence: Iterable[Evidence]) -> bool:
    """The same by plain words alone, for a guess by likeness: that cannot tell "License Status: Licensed" from its failure."""
    return any(_PLAINLY_AMISS.search(item.text) for item in evidence)
