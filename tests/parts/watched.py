"""A machine as the agent sees it, made of the sampling child's messages, and its page of metrics read back."""

from prometheus_client.parser import text_string_to_metric_families as parsed_text

from ongpu.watch import metrics
from ongpu.watch.metrics import Said
from ongpu.watch.processes import Proc
from ongpu.watch.scrape import Page
from ongpu.watch.state import State

Series = dict[str, dict[tuple[tuple[str, str], ...], float]]
ROW = [87, 40, 1024, 61, 250_500, 1410, 1593, 0x4 | 0x20, 9_000_500, 35, 2000, 1000, 3, 7]


def series(text: bytes) -> Series:
    found: Series = {}
    for family in parsed_text(text.decode()):
        for sample in family.samples:
            mine = found.setdefault(sample.name, {})
            key = tuple(sorted(sample.labels.items()))
            assert key not in mine, f"twice: {sample}"
            mine[key] = sample.value
    return found


def page(state: State, said: Said = metrics.NOTHING, **options: object) -> Series:
    made = Page(**options)  # type: ignore[arg-type]
    made.put(state, said)
    return series(made.text())


def told(found: Series, name: str, /, **labels: str) -> float | None:
    """The one series of that name with these labels; None: there is none."""
    values = [value for key, value in found.get(name, {}).items() if labels.items() <= dict(key).items()]
    assert len(values) <= 1
    return values[0] if values else None


def machine(gpus: int = 2) -> State:
    state = State()
    messages: list[dict[str, object]] = [{"k": "init", "t": 1.0, "code": 0, "driver": "535.183.01", "cuda": 12020, "count": gpus}]
    identity = {
        "mem_total": 2048, "power_limit": 300_000, "power_default": 300_000, "temp_limit": 89, "sm_clock_max": 1410, "pcie_gen": 3,
        "pcie_gen_max": 4, "pcie_width": 8, "pcie_width_max": 16, "mig": False, "ecc_mode": 1, "remap_pending": True, "recovery": 2,
    }  # fmt: skip
    messages += [
        {"k": "gpu", "i": i, "uuid": f"GPU-{i}", "name": "NVIDIA A100", "bus": f"0000:{i + 1:02x}:00.0", **identity} for i in range(gpus)
    ]
    messages.append({"k": "s", "t": 1.0, "n": 0, "g": [list(ROW) for _ in range(gpus)]})
    for message in messages:
        state.take(message, 1.0)
    return state


def after(*messages: dict[str, object], gpus: int = 2) -> State:
    state = machine(gpus)
    for message in messages:
        state.take(message, 2.0)
    return state


def many(count: int) -> State:
    state = machine()
    hosts = {}
    for n in range(count):
        line = f"/usr/bin/python3 -u /home/x/train{n}.py"
        hosts[n] = {"user": f"user{n}", "command": line, "rss": 10, "job": f"slurm:{n}"}
    for n in range(count):
        state.gpus[n % 2].processes.append(Proc(n, n if n else None, "C", 5, hosts[n], cpu_share=1.0))
    return state
