"""What an error number or name means, when just that was asked."""

from collections.abc import Iterator

from ongpu.facts.term import Meaning, Term
from ongpu.model import Finding, Layer, Rule, Severity, Text, Words

MOST = 8  # meanings of one term
_END = (".", "。", "!", "?")
_COMMANDS = ("modprobe", "strace", "ldd", "lsmod", "dmesg", "pip", "sudo", "ongpu", "echo", "modinfo", "ldconfig", "nvcc")


def _sentence(*clauses: str, stop: str = ".") -> str:
    """The clauses that are told, as sentences."""
    told = [clause.strip() for clause in clauses if clause.strip()]
    if stop == "。":
        return "".join(text + ("" if text.endswith(_END) else stop) for text in told)
    return " ".join(_capital(text) + ("" if text.endswith(_END) else stop) for text in told)


def _capital(text: str) -> str:
    """With a capital letter, unless it begins with a command or the name of a file."""
    first = text.partition(" ")[0]
    literal = first in _COMMANDS or any(mark in first.strip(".,:") for mark in "._/-=")
    return text if literal else text[0].upper() + text[1:]


def _values(one: Meaning) -> dict[str, object]:
    known_only = Words("NVIDIA's name is all that is known about it", "只知道 NVIDIA 给出的名称")
    give_more = Words("give the lines around it: they tell more than the code", "请提供它前后的日志，比代码本身更说明问题")
    return {
        "label": Words(one.label, one.label_zh),
        "number": one.number,
        "name": Words(one.name, one.name_zh) if one.name_zh else one.name,
        "cause": Words(_sentence(one.cause or known_only.en, one.note), _sentence(one.cause_zh or known_only.zh, one.note_zh, stop="。")),
        "action": Words(_sentence(one.action or give_more.en), _sentence(one.action_zh or give_more.zh, stop="。")),
    }


def check(term: Term) -> Iterator[Finding]:
    seen = set()
    for one in term.meanings[:MOST]:
        variant = "named" if one.family in ("card", "library", "architecture") or not one.number else ""
        key = (one.label, one.number, one.name)
        if key not in seen:
            seen.add(key)
            yield Finding(variant=variant, values=_values(one), refs=(one.ref,))


RULE = Rule(
    slug="error-code",
    layer=Layer.CODE,
    severity=Severity.NOTE,
    check=check,
    see=(
        "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
        "https://docs.nvidia.com/deploy/xid-errors/",
        "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
    ),
    en=Text(title="{label} {number}: {name}", why="{cause}", fix="{action}"),
    zh=Text(title="{label} {number}：{name}", why="{cause}", fix="{action}"),
    variants={
        "named": (Text(title="{name}", why="{cause}", fix="{action}"), Text(title="{name}", why="{cause}", fix="{action}")),
    },
)
