"""Windows of a trend as `watch/window.py` writes them, made from a few figures: what a test needs is said, all else is ordinary."""

import json
from collections.abc import Sequence
from typing import Any

from ongpu.engine import all_rules, diagnose
from ongpu.model import Evidence, Finding, Report
from ongpu.report.verdicts import verdicts

NAME = "NVIDIA A100-SXM4-80GB"
TRAIN = "/opt/conda/bin/python train.py --epochs 90"
Values = float | None | Sequence[float | None]


def many(value: Any, count: int) -> list[Any]:
    """One value repeated, or a sequence repeated as a pattern."""
    if isinstance(value, (list, tuple)):
        return [value[n % len(value)] for n in range(count)]
    return [value] * count


def gpu(
    i: int = 0,
    util: Values = 95,
    *,
    power: Values = 330,
    mem_util: Values = 40,
    mem: float = 40_000,
    seconds: int = 60,
    idle: float | None = None,
    reasons: Values = 0,
    temp: Values = 60,
    rx: Values = None,
    tx: Values = None,
    clock: Values = 1410,
    name: str = NAME,
    listed: bool = True,
    pcie: tuple[int, int] = (4, 16),
    **identity: Any,
) -> dict[str, Any]:
    """One GPU: power in W, rx and tx in GB/s, memory in MiB; idle: by default as long as the window, where nothing ran."""
    count = seconds + 1
    told = {
        "mem_total": 81_920, "power_limit": 400_000, "power_default": 400_000, "temp_limit": 92, "sm_clock_max": 1410, "mig": False,
        "pcie_gen": pcie[0], "pcie_gen_max": pcie[0], "pcie_width": pcie[1], "pcie_width_max": 16, **identity,
    }  # fmt: skip
    values = many(util, count)
    if idle is None and all(value is not None and value <= 1 for value in values):
        idle = float(seconds)
    row = {
        "i": i, "uuid": f"GPU-{i}", "name": name, "identity": told, "processes": listed, "idle": 0.0 if idle is None else idle,
        "t": list(range(count)), "util": values, "mem_util": many(mem_util, count), "mem_used": many(mem, count),
        "power": [None if watts is None else watts * 1000 for watts in many(power, count)], "reasons": many(reasons, count),
        "temp": many(temp, count), "sm_clock": many(clock, count),
    }  # fmt: skip
    for column, rate in (("pcie_rx", rx), ("pcie_tx", tx)):
        if rate is not None:
            row[column] = [None if n % 10 or gbs is None else gbs * 1e6 for n, gbs in enumerate(many(rate, count))]
    return row


def idle(i: int = 0, **changes: Any) -> dict[str, Any]:
    """A GPU on which nothing runs."""
    return gpu(i, **{"util": 0, "power": 62, "mem_util": 0, **changes})


def worker(cpu: Values = 1.0, state: Any = "R", *, read: Values = 0, name: str = "pt_data_worker") -> dict[str, Any]:
    """A child; its pid and the number of looks come with the process."""
    return {"name": name, "cpu": cpu, "state": state, "read": read}


def process(
    pid: int = 4242,
    gpu: int = 0,
    *,
    cpu: Values = 0.4,
    main: Values = None,
    state: Any = "S",
    workers: Sequence[dict[str, Any]] = (),
    read: Values = 0,
    rchar: Values = 0,
    mem: float = 38_000,
    user: str = "ann",
    command: str = TRAIN,
    job: str | None = None,
    looks: int = 12,
    kind: str = "C",
) -> dict[str, Any]:
    """A program on a GPU: cpu and main in cores, rates in MB/s. main: as cpu, at most one core."""
    if main is None:
        main = (
            [None if one is None else min(one, 1.0) for one in cpu]
            if isinstance(cpu, (list, tuple))
            else None
            if cpu is None
            else min(cpu, 1.0)
        )

    def rates(value: Values, by: float = 1.0) -> list[Any]:
        return [None, *(None if one is None else one * by for one in many(value, looks)[1:])][:looks]

    children = [
        {
            "pid": pid + 1 + n,
            "name": one["name"],
            "cpu": rates(one["cpu"]),
            "state": many(one["state"], looks),
            "read": rates(one["read"], 1e6),
        }
        for n, one in enumerate(workers)
    ]
    return {
        "pid": pid, "gpu": gpu, "kind": kind, "user": user, "command": command, "job": job, "t": [5 * n for n in range(looks)],
        "mem": many(mem, looks), "cpu": rates(cpu), "main": rates(main), "state": many(state, looks), "read": rates(read, 1e6),
        "rchar": rates(rchar, 1e6), "workers": children, "quiet": 0.0,
    }  # fmt: skip


def unseen(pid: int = 4242, gpu: int = 0, mem: float | None = 38_000) -> dict[str, Any]:
    """A program of another PID namespace: NVML tells its number and memory, /proc nothing."""
    return {"pid": pid, "gpu": gpu, "kind": "C", "t": [0, 5, 10], "mem": [mem] * 3}


def host(cores: float = 32, *, busy: Values = 6, iowait: Values = 0, net: Values = 0.02, looks: int = 12) -> dict[str, Any]:
    """The machine: busy and iowait in cores, net in MB/s received."""
    return {
        "cores": cores, "load": 5.0, "mem_available": 200_000, "busy": many(busy, looks), "iowait": many(iowait, looks),
        "net_rx": [None if one is None else one * 1e6 for one in many(net, looks)],
    }  # fmt: skip


def text(gpus: Sequence[dict[str, Any]], processes: Sequence[dict[str, Any]] = (), machine: dict[str, Any] | None = None) -> str:
    """The evidence."""
    end = max((row["t"][-1] for row in gpus if row["t"]), default=0)
    mean = {row["i"]: {"gpu": row["i"], "util": _mean(row.get("util", ())), "power": _mean(row.get("power", ()), 400_000)} for row in gpus}
    jobs = [(row["gpu"], row.get("job") or (row.get("user"), row.get("command"))) for row in processes]
    ranks = [[mean[i] for i in sorted({i for i, other in jobs if other == job and i != own}) if i in mean] for own, job in jobs]
    processes = [{**row, "ranks": told} if "cpu" in row else row for row, told in zip(processes, ranks, strict=True)]
    head = json.dumps({"from": 0, "to": end, "interval": 1.0, "host": host() if machine is None else machine})
    cards, programs = (",\n".join(json.dumps(row) for row in rows) for rows in (gpus, processes))
    return f'{head[:-1]}, "gpus": [\n{cards}\n], "processes": [\n{programs}\n]}}\n'


def _mean(values: Sequence[float | None], by: float = 1.0) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) / by if known else None


def report(*rows: dict[str, Any], machine: dict[str, Any] | None = None) -> Report:
    """The whole answer to these GPUs (rows with "i") and processes."""
    gpus, processes = [row for row in rows if "i" in row], [row for row in rows if "pid" in row]
    return diagnose([Evidence("trend", text(gpus, processes, machine), "watch")], "test", all_rules())


def judged(*rows: dict[str, Any], machine: dict[str, Any] | None = None, index: int = 0) -> Finding | None:
    """The verdict on one GPU; None: unknown."""
    return verdicts(report(*rows, machine=machine)).get(index)


def told(*rows: dict[str, Any], machine: dict[str, Any] | None = None, index: int = 0) -> str:
    """The verdict as one word: "slug", "slug/variant", with "?" where it is merely possible, and "unknown"."""
    found = judged(*rows, machine=machine, index=index)
    if found is None:
        return "unknown"
    return found.slug + (f"/{found.variant}" if found.variant else "") + ("?" if found.certainty == 0 else "")
