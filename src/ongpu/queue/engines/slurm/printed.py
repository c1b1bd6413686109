"""Jobs as scontrol, sacct and the file of jobcomp/filetxt print them, read into rows. Pure.

Written for SLURM_TIME_FORMAT=%s, so that no clock and no zone stands between.
"""

import re
from collections.abc import Iterator, Mapping

from ongpu.lazy import lazy, replace
from ongpu.queue.engines.slurm.rows import Row, asked_gpus, held, hosts, memory_of, tasks_of

DELIMITER = "\x1f"
SACCT = (
    "JobID", "JobName", "User", "Account", "Partition", "State", "ExitCode", "Submit", "Eligible", "Start", "End", "AllocTRES", "ReqTRES",
    "NodeList", "Comment", "WorkDir", "TimelimitRaw", "Priority",
)  # fmt: skip
ALONE = frozenset(
    {"Comment", "AdminComment", "Command", "WorkDir", "StdOut", "StdErr", "StdIn", "Reason", "OS", "JOB_GRES"}
)  # on their lines
_TASK = lazy(r"(\d{1,12})_(?:(\d{1,9})|\[([\d,:%-]{1,10000})\])")
_CODE = lazy(r"(\d{1,3}):(\d{1,3})")
_FIELD = lazy(r"(?:^|\s)([A-Z][A-Za-z/:_]{1,40})=")
_ALLOCATED = lazy(r"Nodes=(\S{1,400}) CPU_IDs=\S{1,400} Mem=\d{1,12} GRES=(\S{0,1000})")


# --- scontrol show job -d


def from_scontrol(text: str) -> list[Row]:
    """Of `scontrol show job -d` with SLURM_TIME_FORMAT=%s: blocks with an empty line between them."""
    return [row for block in re.split(r"\n\s*\n", text) if "JobId=" in block and (row := _block(block)) is not None]


def fields(block: str) -> dict[str, str]:
    """NAME=value of a block as scontrol prints it: values with spaces (Comment, Command, Reason) stand alone on their lines."""
    found: dict[str, str] = {}
    for line in block.splitlines():
        line = line.strip()[:65_536]
        name, mark, value = line.partition("=")
        if mark and name in ALONE:
            found.setdefault(name, value.strip())
            continue
        places = list(_FIELD.finditer(line))
        for place, after in zip(places, [*(one.start() for one in places[1:]), len(line)], strict=False):
            found.setdefault(place[1], line[place.end() : after].strip())
    return {name: "" if value in ("(null)", "N/A", "Unknown", "None") else value for name, value in found.items()}


def _seconds(text: str) -> float | None:
    """Of "1796059460" (SLURM_TIME_FORMAT=%s)."""
    return float(text) if re.fullmatch(r"\d{1,12}(?:\.\d{1,6})?", text) and float(text) > 0 else None


def _length(text: str) -> float | None:
    """Of "365-00:00:00", "01:30:00", "30:00"."""
    match = re.fullmatch(r"(?:(\d{1,6})-)?(?:(\d{1,5}):)?(\d{1,5}):(\d{1,2})", text)
    return sum(float(part or 0) * unit for part, unit in zip(match.groups(), (86_400, 3600, 60, 1), strict=True)) if match else None


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,15}", text) else None


def code_of(text: str) -> int | None:
    """An exit code of "3:0" or "0:9"; 128 + n for signal n."""
    match = _CODE.match(text)
    return (128 + int(match[2]) if int(match[2]) else int(match[1])) if match else None


def _block(block: str) -> Row | None:
    told = fields(block)
    raw = told.get("JobId", "").split(" ")[0]
    if not raw.isdecimal():
        return None
    array, task = told.get("ArrayJobId", ""), told.get("ArrayTaskId", "")
    index = _whole(task)
    count, kind = asked_gpus(" ".join(told.get(key, "") for key in ("TresPerNode", "TresPerJob", "TresPerTask", "ReqTRES", "TRES")))
    details = _ALLOCATED.findall(block)
    gres = tuple(one for nodes, detail in details for one in held(nodes, [detail] * len(hosts(nodes))))
    user = told.get("UserId", "").partition("(")[0]
    return Row(
        id=f"{array}_{index}" if array and index is not None else array or raw, array=array, index=index,
        tasks=tasks_of(task)[0] if index is None else (), at_once=_whole(told.get("ArrayTaskThrottle", "")) or None, raw=raw,
        name=told.get("JobName", ""),
        user=user, state=told.get("JobState", "").upper(), reason=told.get("Reason", ""), code=code_of(told.get("ExitCode", "")),
        submitted=_seconds(told.get("SubmitTime", "")) or 0.0, eligible=_seconds(told.get("EligibleTime", "")),
        started=_seconds(told.get("StartTime", "")), ended=_seconds(told.get("EndTime", "")), limit=_length(told.get("TimeLimit", "")),
        nodes=told.get("NodeList", ""), gres=gres, gpus=len(gres) or count, type=kind, cpus=_whole(told.get("NumCPUs",
        "").partition("-")[0]),
        memory=memory_of(told.get("ReqTRES", "") or told.get("TRES", "")), comment=told.get("Comment", ""), folder=told.get("WorkDir", ""),
        output=told.get("StdOut", ""), command=told.get("Command", ""), restarts=_whole(told.get("Restarts", "")) or 0,
        priority=_whole(told.get("Priority", "")), dependency=told.get("Dependency", ""), partition=told.get("Partition", ""),
        account=told.get("Account", ""), reservation=told.get("Reservation", ""),
    )  # fmt: skip


# --- sacct, and the file of jobcomp/filetxt


def from_sacct(text: str) -> list[Row]:
    """Of `sacct -X -n -P --delimiter=DELIMITER -o SACCT` with SLURM_TIME_FORMAT=%s."""
    found = []
    for line in text.splitlines():
        cells = line.split(DELIMITER)
        if len(cells) != len(SACCT):
            continue
        told = dict(zip(SACCT, cells, strict=True))
        if (row := _finished(told["JobID"], told)) is not None:
            minutes = _whole(told["TimelimitRaw"])
            found.append(
                replace(row, limit=60.0 * minutes if minutes else None, comment=told["Comment"], priority=_whole(told["Priority"]))
            )
    return found


def _finished(name: str, told: Mapping[str, str]) -> Row | None:
    match = _TASK.fullmatch(name)
    if not match and not name.isdecimal():
        return None
    array = match[1] if match else ""
    index = int(match[2]) if match and match[2] else None
    count, kind = asked_gpus(told.get("AllocTRES", "") or told.get("ReqTRES", ""))
    state, _, more = told["State"].partition(" ")  # "CANCELLED by 1000"
    return Row(
        id=name if index is not None else array or name, array=array, index=index, tasks=tasks_of(match[3] or "")[0] if match else (),
        name=told.get("JobName", ""), user=told.get("User", ""), state=state.upper().rstrip("+"),
        reason="" if more.startswith("by") else more,
        code=code_of(told.get("ExitCode", "")), submitted=_seconds(told.get("Submit", "")) or 0.0, eligible=_seconds(told.get("Eligible",
        "")),
        started=_seconds(told.get("Start", "")), ended=_seconds(told.get("End", "")),
        nodes=told.get("NodeList", "") if told.get("NodeList") not in ("None assigned", "(null)") else "", gpus=count, type=kind,
        memory=memory_of(told.get("ReqTRES", "")), folder=told.get("WorkDir", ""), partition=told.get("Partition", ""),
        account=told.get("Account", ""),
    )  # fmt: skip


def from_jobcomp(text: str) -> Iterator[Row]:
    """Of the file that JobCompType=jobcomp/filetxt writes: NAME=value on one line each, times local (as slurmctld has them)."""
    from datetime import datetime

    def at(value: str) -> str:
        try:
            return str(datetime.fromisoformat(value).timestamp())
        except (ValueError, OverflowError, OSError):
            return ""

    for line in text.splitlines():
        told = fields(line[:16_384])
        if not told.get("JobId"):
            continue
        plain = {
            "JobName": told.get("Name", ""), "User": told.get("UserId", "").partition("(")[0], "State": told.get("JobState", ""),
            "ExitCode": told.get("ExitCode", ""), "AllocTRES": told.get("Tres", ""), "NodeList": told.get("NodeList", ""),
            "WorkDir": told.get("WorkDir", ""),
            "Partition": told.get("Partition", ""), "Account": told.get("Account", ""),
            **{name: at(told.get(f"{name}Time", "")) for name in ("Submit", "Eligible", "Start", "End")},
        }  # fmt: skip
        if (row := _finished(told["JobId"], plain)) is not None:
            yield row
