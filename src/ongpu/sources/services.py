"""The services around the GPU, as systemctl, service and journals tell their state."""

import re
from collections.abc import Iterable

from ongpu.facts.driver import Services
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Get, Ref, Source

UNITS = (
    "nvidia-fabricmanager", "nvidia-persistenced", "nvidia-gridd", "nvidia-cuda-mps", "nvidia-mps", "nvidia-powerd", "nvidia-dcgm",
    "docker",
    "nvidia-suspend", "nvidia-resume", "nvidia-hibernate", "nvidia-imex", "containerd", "ollama", "slurmd", "kubelet",
)  # fmt: skip
_UNIT = "|".join(UNITS)
_HEAD = lazy(rf"^\s*[●○×*x↻]?\s*(?P<unit>{_UNIT})(?:\.service)?(?:\s+-\s+[^\n]*)?$", re.MULTILINE)
_LOADED = lazy(r"^\s*Loaded:\s*(?P<state>loaded|not-found|masked|error|bad-setting)", re.MULTILINE)
_ACTIVE = lazy(r"^\s*Active:\s*(?P<state>active|inactive|failed|activating|deactivating)\b", re.MULTILINE)
_MISSING = lazy(
    rf"Unit (?:file )?(?P<a>{_UNIT})(?:\.service)?(?: could)? (?:not be found|not found|does not exist)|"
    rf"(?:Failed to (?:start|restart|enable|get unit file state for)[^\n]{{0,30}}?) ?(?P<b>{_UNIT})(?:\.service)?: "
    rf"Unit[^\n]{{0,60}}not found|"
    rf"Unit file (?P<c>{_UNIT})\.service does not exist"
)
_TABLE = lazy(rf"^\s*[●○×*]?\s*(?P<unit>{_UNIT})\.service\s+(?P<load>loaded|not-found|"
    rf"masked)\s+(?P<state>active|inactive|failed|activating)\s+\w+", re.MULTILINE)
_TOLD = lazy(
    rf"\b(?P<unit>{_UNIT})(?:\.service)?(?:\s+service)?\s*(?:is|was|:|=|->|shows|reports|"
    rf"status:?)?\s*(?P<not>not\s+|never\s+)?(?P<state>active|inactive|failed|running|started|installed|dead|"
    rf"masked|disabled|stopped|未运行|未启动|未安装)\b",
    re.IGNORECASE,
)
_STATES = {"running": "active", "started": "active", "dead": "inactive", "stopped": "inactive", "disabled": "inactive",
           "masked": "inactive", "未运行": "inactive", "未启动": "inactive", "未安装": "missing"}
_ASKED = lazy(r"systemctl (?:--\S+ )*(?:is-active|is-enabled|is-failed)\s+(?P<units>[^\n|;]{1,200})")


def read(evidence: Evidence) -> Iterable[Fact]:
    """unit -> state."""
    text = evidence.text
    states: dict[str, str] = {}
    refs: list[Ref] = []

    def note(unit: str, state: str, at: int) -> None:
        if unit not in states:
            states[unit] = state
            refs.append(evidence.ref_at(at, unit))

    for head in _HEAD.finditer(text):
        block = text[head.end() : head.end() + 700]
        active = _ACTIVE.search(block)
        loaded = _LOADED.search(block)
        if loaded and loaded["state"] == "not-found":
            note(head["unit"], "missing", head.end() + loaded.start("state"))
        elif active:
            note(head["unit"], active["state"], head.end() + active.start("state"))
    command = evidence.command or ""
    asked = re.search(rf"(?:systemctl status|service)\s+(?:-\S+\s+)*(?P<unit>{_UNIT})\b", command)
    if asked and asked["unit"] not in states and (active := _ACTIVE.search(text)):
        note(asked["unit"], active["state"], active.start("state"))
    if match := _ASKED.search(command):
        words = re.findall(r"^\s*(active|inactive|failed|activating|unknown|enabled|disabled|not-found)\s*$", text, re.MULTILINE)
        units = [unit.removesuffix(".service") for unit in match["units"].split()]
        at = max(0, text.find(words[0])) if words else 0
        if "is-active" in command or "is-failed" in command:
            for unit, word in zip(units, words, strict=False):
                note(unit, "missing" if word in ("not-found",) else word, at)
    for match in _MISSING.finditer(text):
        note(next(filter(None, match.groups())), "missing", match.start())
    for match in _TABLE.finditer(text):
        note(match["unit"], "missing" if match["load"] == "not-found" else match["state"], match.start("unit"))
    for match in _TOLD.finditer(text):
        word = match["state"].lower()
        if match["not"]:
            state = "missing" if word == "installed" else "inactive"
        else:
            state = _STATES.get(word, word)
        if state in ("active", "inactive", "failed", "missing"):
            note(match["unit"].lower(), state, match.start())
    if states:
        yield Services(states=states, refs=tuple(refs))


def looks_like(evidence: Evidence) -> bool:
    """Whether a service is named in it."""
    return any(unit in evidence.text or unit in (evidence.command or "") for unit in UNITS)


SOURCES = (
    Source(
        kind="services", read=read, looks_like=looks_like, gives=(Services,),
        get=(Get(call="kernel:services", limit=3.0, only="linux"),),
        settle="systemctl status nvidia-fabricmanager nvidia-persistenced nvidia-gridd",
    ),
)
