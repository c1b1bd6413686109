"""`scontrol show job`, `sacct --parsable2 --format=...` and `squeue --format=%all`, as the man pages of Slurm 22.05 have them."""

import re
from collections.abc import Iterable, Iterator, Mapping

from ongpu.lazy import lazy
from ongpu.queue import asked
from ongpu.queue.engines import EngineError
from ongpu.queue.imports.found import Found, Wish, checked, one_line, split
from ongpu.queue.job import Spec

MOST_LINE = 200_000
WAITS = "PENDING", "PD", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"
HELD = "REQUEUE_HOLD", "SPECIAL_EXIT"
RUNS = "RUNNING", "CONFIGURING", "CF", "SUSPENDED", "COMPLETING", "CG", "STOPPED"
Row = Mapping[str, str]

_FIELD = lazy(r"(?:^|\s)([A-Z][A-Za-z/:]{1,30})=")
_GPUS = lazy(r"gres[:/]gpu(?::(?P<model>[A-Za-z][\w.-]{0,60}))?(?:[:=](?P<count>\d{1,5}))?(?=,|$|\()")
_NAMES = {  # as squeue, sacct and scontrol call them
    "id": ("JobId", "JobID", "JOBID"), "name": ("JobName", "NAME"), "state": ("JobState", "State", "STATE", "ST"),
    "user": ("UserId", "User", "USER"), "limit": ("TimeLimit", "Timelimit", "TIME_LIMIT"), "account": ("Account", "ACCOUNT"),
    "folder": ("WorkDir", "WORK_DIR"), "command": ("Command", "COMMAND"), "submitted": ("SubmitLine",),
    "tres": ("ReqTRES", "TRES", "TresPerJob", "TresPerNode", "TRES_PER_JOB", "TRES_PER_NODE", "GRES"),
    "nodes": ("NumNodes", "NNodes", "NODES"),
    "cpus": ("NumCPUs", "ReqCPUS", "CPUS"), "memory": ("MinMemoryNode", "ReqMem", "MIN_MEMORY"), "dependency": ("Dependency", "DEPENDENCY"),
    "array": ("ArrayTaskId", "ARRAY_TASK_ID"), "array_job": ("ArrayJobId", "ARRAY_JOB_ID"), "reason": ("Reason", "REASON"),
    "begin": ("EligibleTime", "Eligible", "StartTime", "START_TIME"),
}  # fmt: skip
_WHOLE = ("Command", "WorkDir", "StdOut", "StdErr", "StdIn", "SubmitLine")  # whose value is the rest of the line
_FLAGS = (  # options of sbatch without a value
    "-H", "-h", "-I", "-k", "-O", "-Q", "-s", "-v", "-W", "--hold", "--wait", "--parsable", "--requeue", "--no-requeue", "--contiguous",
    "--exclusive", "--overcommit", "--oversubscribe", "--quiet", "--verbose", "--spread-job", "--use-min-nodes", "--test-only",
)  # fmt: skip


def records(text: str) -> Iterator[Row]:
    """What `scontrol show job` prints: NAME=value, one record after the other."""
    for block in re.split(r"\n(?=\s{0,20}JobId=)", text):
        row: dict[str, str] = {}
        for line in block.splitlines():
            line = line.strip()[:MOST_LINE]
            found = list(_FIELD.finditer(line))
            if found and found[0][1] in _WHOLE:
                found = found[:1]
            for place, one in enumerate(found):
                end = found[place + 1].start() if place + 1 < len(found) else len(line)
                row.setdefault(one[1], line[one.end() : end].strip())
        if "JobId" in row:
            yield row


def columns(head: list[str], line: str) -> Row:
    """A line of cells between bars, by the names above them."""
    return dict(zip(head, (cell.strip() for cell in line.split("|")), strict=False))


def job(row: Row, wish: Wish) -> tuple[str, Found | str]:
    """Of a record, whatever command printed it: the job, or why it is left (found.LEFT)."""
    def told(what: str) -> str:
        value = next((row[name] for name in _NAMES[what] if row.get(name) not in (None, "", "(null)", "N/A", "None")), "")
        return value.strip()

    name = one_line(told("id"), 60)
    base, _, places = name.partition("_")  # sacct: "12_[3-9]"
    places = told("array") or places.strip("[]")
    base = told("array_job") or base
    if places and "_" not in name:  # scontrol: the number that this part of it has for itself
        name = one_line(f"{base}_{places if places.isdecimal() else f'[{places}]'}", 60)
    if not name or "." in name:  # a step
        return name or "?", "not-read"
    state, user = told("state").upper(), told("user").partition("(")[0]
    if wish.user and user and user != wish.user:
        return name, "other-user"
    if state and not state.startswith(WAITS):
        if state != "R" and not state.startswith(RUNS):
            return name, "ended"
        if not wish.running:
            return name, "runs"
    reason = told("reason").strip("()")
    if state.startswith(HELD) or reason.startswith("JobHeld"):
        return name, "held"
    words = split(told("command")) if told("command") else _of_line(told("submitted"))
    if not words:
        return name, "wrapped" if told("folder") else "no-command"
    nodes = told("nodes").partition("-")[0]
    if nodes.isascii() and nodes.isdigit() and len(nodes) < 6 and int(nodes) > 1:
        return name, "nodes"
    gpus, model = _gpus(row.get(key, "") for key in _NAMES["tres"])
    try:
        array, at_once = asked.array(places) if places else ((), None)
    except EngineError:
        return name, "not-read"
    spec = Spec(
        command=tuple(words), name=one_line(told("name"), 60), folder=told("folder"), project=one_line(told("account"), 60),
        gpus=gpus, model=model,
        limit=_limit(told("limit")), cpus=_count(told("cpus")), host_memory=_memory(told("memory")), at_once=at_once,
        begin=_begin(told("begin")) if reason == "BeginTime" else None,
    )  # fmt: skip
    needs = _needs(told("dependency"))
    return (name, "depends") if needs is None else checked(base if array else name, spec, needs, array)


def _needs(text: str) -> list[tuple[str, str]] | None:
    """Of "afterok:12:13_*(unfulfilled),afterany:14"; None: of another kind, one of several, or one of an array."""
    needs: list[tuple[str, str]] = []
    for part in filter(None, text[:MOST_LINE].split(",")):
        match = re.fullmatch(r"after(ok|any)((?::\d{1,20}(?:_\*)?)+)(?:\(\w{0,20}\))?", part.strip())
        if not match:
            return None
        needs += [(match[1], one.removesuffix("_*")) for one in match[2][1:].split(":")]
    return needs


def _gpus(fields: Iterable[str]) -> tuple[int, str]:
    """How many, of the first field that tells (of all nodes together), and the model, of the first that names one."""
    found = [match for field in fields for match in _GPUS.finditer(field[:10_000])]
    return (int(found[0]["count"] or 1) if found else 0), next((match["model"] for match in found if match["model"]), "")


def _of_line(line: str) -> list[str]:
    """The command of "sbatch --gres=gpu:2 job.sh 3", or of its --wrap; [] where it names none."""
    words = split(line) if line else []
    place = 1
    while words and place < len(words):
        word = words[place]
        if word.startswith("--wrap"):
            whole = word.partition("=")[2] or (words[place + 1] if place + 1 < len(words) else "")
            return ["sh", "-c", whole] if whole else []
        if not word.startswith("-"):
            return words[place:]
        place += 1 if word in _FLAGS or "=" in word or (not word.startswith("--") and len(word) > 2) else 2
    return []


def _begin(text: str) -> float | None:
    """Seconds since the epoch of 2026-12-01T06:00:00, local; None: not told."""
    try:
        return asked.moment(text, 0.0)
    except EngineError:
        return None


def _limit(text: str) -> float | None:
    """Seconds of Slurm's [days-]hours:minutes:seconds, minutes:seconds or minutes; None: none."""
    match = re.fullmatch(r"(?:(\d{1,5})-)?(?:(\d{1,5}):)?(\d{1,7})(?::(\d{1,2}))?", text)
    if not match:
        return None
    days, first, second, third = (int(part) if part else 0 for part in match.groups())
    if match[4]:
        hours, minutes, rest = first, second, third
    elif match[2]:
        hours, minutes, rest = (first, second, 0) if match[1] else (0, first, second)
    else:
        hours, minutes, rest = (second, 0, 0) if match[1] else (0, second, 0)
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest) or None


def _count(text: str) -> int | None:
    first = re.match(r"\d{1,5}", text)
    return int(first[0]) or None if first else None


def _memory(text: str) -> int | None:
    """MiB of "80G", "4000M", "16Gn"; Slurm's unit without a letter is MiB. Per CPU ("4Gc") and 0 (all): not taken."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([KMGT]?)n?", text)
    if not match:
        return None
    return round(float(match[1]) * 1024.0 ** ("KMGT".index(match[2] or "M") - 1)) or None
