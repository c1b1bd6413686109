"""The /dev/nvidia* nodes as `ls` lists them, and the user (`id`, `groups`) who wants to open them."""

import re
from collections.abc import Iterable
from typing import Any

from ongpu.facts.driver import Node, Nodes
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Get, Ref, Source

_PATH = (
    r"/?(?:dev/)?(?P<path>nvidia(?:\d{1,3}|ctl|-uvm(?:-tools)?|-modeset|-nvswitch\d*|-nvswitchctl|-nvlink|"
    r"-caps(?:-imex-channels)?|-caps/nvidia-cap\d+)?)"
)
_LONG = lazy(
    r"^\s*(?P<mode>[cd][rwxsStT-]{9})[.+@]?\s+\d{1,4}\s+(?P<owner>[\w.$+-]{1,40})\s+(?P<group>[\w.$+ -]{1,"
    r"40}?)\s+(?P<major>\d{1,5}),\s*(?P<minor>\d{1,5})\s+(?:[^\n/]{3,40}?\s)??"
    + _PATH + r"(?P<rest>[^\n\w/-][^\n]{0,60})?$",
    re.MULTILINE,
)
_NAME = lazy(r"(?<![\w./'\"’:])/dev/(?P<path>nvidia(?:\d{1,3}|ctl|-uvm(?:-tools)?|-modeset|-nvswitch\d*|"
    r"-nvswitchctl|-nvlink|-caps)):?(?=\s|$)")
_BARE = lazy(r"(?<![\w./'\"’:-])(?P<path>nvidia(?:\d{1,3}|ctl|-uvm(?:-tools)?|-modeset|-nvswitch\d*|"
    r"-caps)):?(?=\s|$)")
_ABSENT = lazy(
    r"(?:cannot access|cannot open|stat|lstat|open\w*|failed to stat|find|device|file|access|node|map|\"|"
    r"')\s*:?\s*\(?[\"'‘`]?(?P<path>/dev/nvidia[\w*?\[\]-]*(?:/[\w-]+)?)[\"'’`]?\)?"
    r"\s*(?:[:,]|\()?[^\n]{0,40}?(?:no such file or directory|ENOENT|does not exist|not found|No such file|没有那个文件或目录)",
    re.IGNORECASE,
)
_ABSENT_B = lazy(r"(?P<path>/dev/nvidia[\w*-]*)[\"'’]?\s*(?:is missing|: no such file|: No such file|"
    r"does(?: not|n't) exist|(?:is )?not (?:there|found|present)|missing)", re.IGNORECASE)
_LS = lazy(r"\b(?:ls|find)\b[^|;\n]*(?:/dev/nvidia\*|/dev/\*?nv|/dev/nvid|/dev/?(?:\s|$)[^\n]*\|\s*(?:e|"
    r"f)?grep\s+(?:-\w+\s+)*[\"']?nv)|\bls\b[^|;\n]*/dev/?\s*$", re.IGNORECASE)
_ID = lazy(r"\buid=\d+(?:\((?P<user>[\w.$@\\-]{1,60})\))?\s+gid=\d+(?:\((?P<gid>[\w.$@\\ -]{1,"
    r"60})\))?(?:\s+groups=(?P<groups>[^\n]{1,2000}))?")
_GROUPS = lazy(r"^(?:(?P<user>[\w.-]{1,40}) : )?(?P<groups>[a-z_][\w-]{0,30}(?: [a-z_][\w-]{0,30}){0,60})\s*$", re.MULTILINE)


def _nodes(evidence: Evidence) -> list[Node]:
    found: dict[str, Node] = {}
    gone = {path for path, _ in _absent(evidence)}
    for match in _LONG.finditer(evidence.text):
        path = "/dev/" + match["path"]
        if match["mode"].startswith("d") and "caps" not in path:
            continue
        rest = match["rest"] or ""
        openable = None if "openable" not in rest else "not openable" not in rest
        found.setdefault(path, Node(path=path, mode=match["mode"], owner=match["owner"], group=match["group"].strip(), openable=openable,
                                    ref=evidence.ref_at(match.start("mode"), "nodes")))
    command = evidence.command or ""
    if not found and _LS.search(command or evidence.text.partition("\n")[0]):
        first = len(evidence.text.partition("\n")[0]) + 1 if command and command in evidence.text.partition("\n")[0] else 0
        for pattern in (_NAME, _BARE) if re.search(r"/dev/?\s", command + " ") else (_NAME,):
            for match in pattern.finditer(evidence.text, first):
                path = "/dev/" + match["path"]
                if path in gone:
                    continue
                found.setdefault(path, Node(path=path, ref=evidence.ref_at(match.start(), "nodes")))
    return list(found.values())[:300]


def _absent(evidence: Evidence) -> list[tuple[str, Ref]]:
    found: dict[str, Ref] = {}
    for pattern in (_ABSENT, _ABSENT_B):
        for match in pattern.finditer(evidence.text):
            found.setdefault(match["path"], evidence.ref_at(match.start("path"), "absent"))
    return list(found.items())[:20]


def _user(evidence: Evidence) -> dict[str, Any]:
    if match := _ID.search(evidence.text):
        groups = re.findall(r"\d+\(([^)\n]{1,60})\)", match["groups"] or "") or ([match["gid"]] if match["gid"] else [])
        return {"user": match["user"], "groups": tuple(groups), "refs": (evidence.ref_at(match.start(), "groups"),)}
    command = evidence.command or ""
    if re.match(r"(?:groups|id -n?Gn?)\b", command):
        body = evidence.text.find("\n") + 1 if command in evidence.text.partition("\n")[0] else 0
        if match := _GROUPS.search(evidence.text, body):
            return {"user": match["user"], "groups": tuple(match["groups"].split()), "refs": (evidence.ref_at(match.start(), "groups"),)}
    return {}


def read(evidence: Evidence) -> Iterable[Fact]:
    """The nodes with their modes, those that are not there, and the user's groups."""
    nodes, absent = _nodes(evidence), _absent(evidence)
    paths = {node.path for node in nodes}
    asked = bool(_LS.search(evidence.command or "")) or (evidence.kind == "device-nodes" and evidence.origin.startswith("ls -l"))
    listed = (asked and bool(nodes)) or (len(paths) >= 3 and "/dev/nvidiactl" in paths)
    refs = [node.ref for node in nodes if node.ref]
    none = evidence.kind == "device-nodes" and evidence.problem == "not found"
    if none or any("*" in path for path, _ in absent) or (asked and not nodes and _silent(evidence)):
        listed = True
        refs += [] if absent else [evidence.ref(evidence.first_line, f"{evidence.command or evidence.origin}: nothing", "nodes")]
    gone = tuple(path for path, _ in absent if "*" not in path and path not in paths)
    if nodes or absent or listed:
        yield Nodes(nodes=tuple(nodes), listed=listed or None, absent=gone, refs=(*refs[:8], *(ref for _, ref in absent)))
    if user := _user(evidence):
        yield Nodes(**user)


def _silent(evidence: Evidence) -> bool:
    """Whether the listing printed nothing."""
    lines = evidence.text.split("\n")[1:] if evidence.command else evidence.text.split("\n")
    return all(not line.strip() or line.strip().lower() in ("(no output)", "(nothing)", "(empty)") for line in lines)


def looks_like(evidence: Evidence) -> bool:
    """Whether nodes or a user may be told in it."""
    text = evidence.text
    command = evidence.command or ""
    return any(word in text for word in ("/dev/nvidia", "nvidiactl", "uid=")) or "/dev" in command or command.startswith(("groups", "id"))


SOURCES = (
    Source(kind="device-nodes", read=read, looks_like=looks_like, gives=(Nodes,),
           get=(Get(listing="/dev/nvidia*", only="linux"), Get(argv=("id",), only="linux")), settle="ls -l /dev/nvidia*; id"),
)
