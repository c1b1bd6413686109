"""Who else uses the GPUs while this process fails: NVML, under a time limit, without the process itself."""

import json
import os
import threading

from ongpu.hosts import nvml
from ongpu.hosts.live import Live
from ongpu.lazy import replace
from ongpu.model import Evidence

LIMIT = 4.0  # seconds


def ask(started: bool, limit: float = LIMIT) -> list[Evidence]:
    """What NVML says of the cards and of the other processes on them; nothing where it does not answer in time.

    started: whether this process uses a GPU, so that it must be among those that NVML lists.
    """
    found: list[Evidence] = []

    def work() -> None:
        found.extend(nvml.ask(Live(), limit))

    thread = threading.Thread(target=work, name="ongpu NVML", daemon=True)  # one that sleeps in the driver must not keep us
    thread.start()
    thread.join(limit + 0.5)
    return [without(item, os.getpid(), started) for item in list(found) if item.text]


def without(item: Evidence, pid: int, started: bool) -> Evidence:
    """The evidence without that process: the failing one is no stranger to itself.

    In a container NVML tells the host's process ids. Where this process must be listed and is not, nobody can tell which
    row it is, so no process is told.
    """
    if item.kind != "nvml":
        return item
    rows = [json.loads(line) if line.startswith("{") and '"processes"' in line else line for line in item.text.split("\n")]
    cards = [row for row in rows if isinstance(row, dict) and isinstance(row.get("processes"), list)]
    listed = [p for card in cards for p in card["processes"] if isinstance(p, dict)]
    hidden = started and bool(listed) and not any(p.get("pid") == pid for p in listed)
    for card in cards:
        card["processes"] = [] if hidden else [p for p in card["processes"] if isinstance(p, dict) and p.get("pid") != pid]
    return replace(item, text="\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
