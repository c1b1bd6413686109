"""The machine as a whole, from /proc: cores, load, time that waited for storage, network traffic, memory (facts.sample.MACHINE)."""

import contextlib
import os
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
QUOTAS = ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us")  # cgroup v2, v1


def processor(text: str) -> dict[str, float]:
    """Seconds so far over all cores, from the first line of /proc/stat (proc(5)): user nice system idle iowait irq softirq steal."""
    first = text.partition("\n")[0].split()
    if len(first) < 6 or first[0] != "cpu" or not all(word.isdecimal() for word in first[1:]):
        return {}
    numbers = [int(word) for word in first[1:9]]
    return {"busy": round((sum(numbers) - numbers[3] - numbers[4]) / TICKS, 2), "iowait": round(numbers[4] / TICKS, 2)}


def traffic(text: str) -> dict[str, int]:
    """Bytes so far of all interfaces but lo, from /proc/net/dev: the first number is received, the ninth sent."""
    received = sent = 0
    found = False
    for line in text.splitlines()[:4096]:
        name, colon, rest = line.partition(":")
        numbers = rest.split()
        if colon and name.strip() != "lo" and len(numbers) >= 9 and numbers[0].isdecimal() and numbers[8].isdecimal():
            received, sent, found = received + int(numbers[0]), sent + int(numbers[8]), True
    return {"net_rx": received, "net_tx": sent} if found else {}


def available(text: str) -> dict[str, int]:
    """MiB that programs can still have, from /proc/meminfo (in KiB there)."""
    for line in text.splitlines()[:64]:
        name, _, rest = line.partition(":")
        number = rest.split()[:1]
        if name == "MemAvailable" and number and number[0].isdecimal():
            return {"mem_available": int(number[0]) >> 10}
    return {}


def quota(text: str, period: str = "100000") -> float | None:
    """Cores that a cgroup may use; None: no limit. text: "150000 100000" (v2's cpu.max), or v1's quota with its period apart."""
    words = [*text.split(), period][:2]
    if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]) > 0 and int(words[0]) > 0:
        return int(words[0]) / int(words[1])
    return None


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(1 << 18)
    except OSError:
        return ""


def look(root: str = "") -> dict[str, Any]:
    """What /proc says now; without what it does not say."""
    found: dict[str, Any] = {}
    affinity = getattr(os, "sched_getaffinity", None)
    cores = float(len(affinity(0)) if affinity else os.cpu_count() or 1)
    period = _text(f"{root}/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    limits = (quota(_text(root + path), period) for path in QUOTAS)
    found["cores"] = round(min([cores, *(limit for limit in limits if limit is not None)]), 2)
    with contextlib.suppress(ValueError, IndexError):
        found["load"] = float(_text(f"{root}/proc/loadavg").split()[0])
    found |= processor(_text(f"{root}/proc/stat"))
    found |= traffic(_text(f"{root}/proc/net/dev"))
    found |= available(_text(f"{root}/proc/meminfo"))
    return found
