"""How often the kernel has ended programs for want of memory: counters that anyone may read, unlike its log."""

import re
from pathlib import Path

from ongpu.lazy import lazy

_CGROUP = lazy(r"^(?:(?P<two>0:)|\d{1,4}:(?:[^:\n]{1,80},)?memory(?:,[^:\n]{1,80})?):(?P<path>/[^\n]{0,1000})$", re.MULTILINE)
_COUNT = lazy(r"^oom_kill (\d{1,18})$", re.MULTILINE)


def count(root: str = "/") -> dict[str, int]:
    """By where it is told: "cgroup" (of our own group: its memory limit; cgroup-v2 memory.events, or v1 memory.oom_control) and
    "machine" (/proc/vmstat, since the boot). Empty where nothing tells."""
    found = {}
    groups = _text(root, "proc/self/cgroup")
    for match in _CGROUP.finditer(groups):
        path = match["path"].lstrip("/")
        file = f"sys/fs/cgroup/{path}/memory.events" if match["two"] else f"sys/fs/cgroup/memory/{path}/memory.oom_control"
        if told := _COUNT.search(_text(root, file)):
            found["cgroup"] = int(told[1])
    if told := _COUNT.search(_text(root, "proc/vmstat")):
        found["machine"] = int(told[1])
    return found


def since(before: dict[str, int], root: str = "/") -> str:
    """A line about the new ones, as the rules read it; "" where there are none."""
    now = count(root)
    new = {place: now[place] - before[place] for place in now if place in before and now[place] > before[place]}
    if "cgroup" in new:
        return f"cgroup memory limit: {new['cgroup']} oom_kill event in this control group while the command ran"
    return f"kernel: {new['machine']} oom_kill event on this machine while the command ran (/proc/vmstat)" if new else ""


def _text(root: str, path: str) -> str:
    try:
        with open(Path(root, path), "rb") as file:
            return file.read(1 << 16).decode("utf-8", "replace")
    except OSError:
        return ""
