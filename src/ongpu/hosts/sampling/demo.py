"""A simulated node that goes through the faults: the lines of `facts/sample.py` without NVML, the same for the same seed.

One round of the story takes three minutes (STORY); then it begins again. Nobody needs a GPU to see what each fault looks like.
All figures are made up after an 8-GPU H100 SXM machine; the kernel's lines have the driver's wording.
"""

import json
import sys
import time
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

from ongpu.lazy import dataclass, replace

Message = dict[str, Any]

ROUND = 180.0  # seconds of a round of the story
# (second, GPU or None for the driver, what happens). GPUs 2 to 5 are slow all the time, each for a reason of its own.
STORY: tuple[tuple[float, int | None, str], ...] = (
    (20, 1, "too hot"), (50, 1, "cool again"),
    (55, 6, "power brake"), (75, 6, "brake released"),
    (80, 6, "Xid 31, its program dies"), (86, 6, "program started again"),
    (92, 7, "uncorrectable ECC error, a row is to be remapped"),
    (106, 7, "Xid 79, lost"),
    (125, 6, "hung"), (143, 6, "answers again"),
    (152, None, "driver unloaded"), (164, None, "driver loaded again"),
)  # fmt: skip
HOT, BRAKE, ECC, LOST, HUNG, DOWN = (20, 45), (55, 75), (92, 164), (106, 164), (125, 143), (152, 164)
CRASHED, AGAIN = 80, 86  # of GPU 6's program
LOADED = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.127.08  Tue Oct  8 03:20:53 UTC 2024"
NAME, DRIVER, CUDA = "NVIDIA H100 80GB HBM3", "550.127.08", 12040
MEMORY, LIMIT_W, CLOCK, MEM_CLOCK = 81559, 700, 1980, 2619  # MiB, W, MHz
LIMIT_C = 87  # where this simulated card slows down; told as a margin only, as Hopper does
BUSES = (0x1A, 0x3D, 0x4E, 0x5F, 0x9A, 0xBA, 0xCA, 0xD8)
BOOTED = 3_000_000.0  # seconds that the machine was up when the simulation begins
TICKS = 100  # clock ticks a second, as /proc counts
IDLE, BRAKED, HW_HEAT = 0x1, 0x8 | 0x80, 0x8 | 0x40  # nvmlClocksEventReasons


@dataclass(frozen=True)
class Load:
    """What a GPU does: percent, MiB, W, MHz, degrees; `swing`: percent up and down from look to look."""

    util: float
    memory: int
    power: float
    clock: int
    temp: float
    mem_util: float
    swing: float = 2.0
    reasons: int = 0
    tx: int = 0  # kB/s
    rx: int = 0


@dataclass(frozen=True)
class Job:
    """A program on one GPU. cpu, main: cores; children: (name, how many, cores, state, bytes read a second) of one kind."""

    user: str
    uid: int
    command: str
    pid: int
    memory: int
    cpu: float
    main: float
    state: str = "S"
    rss: int = 6200
    threads: int = 64
    read: int = 0
    children: tuple[str, int, float, str, int] | None = None
    container: str | None = None
    job: str | None = None

    @property
    def name(self) -> str:
        """As the kernel cuts it."""
        return self.command.split()[0].rsplit("/")[-1][:15]


FREE = Load(0, 4, 71, 345, 31, 0, 0.0, IDLE)
HEALTHY = Load(96, 68_240, 645, CLOCK, 66, 58, 3.0, 0, 1_900_000, 2_400_000)
LOADS = (
    HEALTHY,
    replace(HEALTHY, temp=69),
    Load(34, 21_530, 212, CLOCK, 44, 13, 28.0, 0, 40_000, 640_000),  # waits for its data-loading workers
    Load(27, 9_870, 168, CLOCK, 41, 4, 5.0, 0, 60_000, 55_000),  # waits for one Python thread
    replace(FREE, memory=41_980, power=118, clock=CLOCK, temp=36),  # held by a notebook that does nothing
    Load(9, 33_410, 139, CLOCK, 39, 3, 8.0, 0, 20_000, 150_000),  # waits for the disk
    Load(88, 73_900, 590, CLOCK, 63, 71, 6.0, 0, 900_000, 700_000),
    replace(HEALTHY, temp=64, memory=70_112),
)
_READER = ("pt_data_worker", 8, 0.35, "S", 250_000)
_TRAIN = "/opt/conda/bin/python -u pretrain.py --config configs/llama-8b.yaml"
_POD = "k8s:vision/resnet-ablation-7"
JOBS = (
    Job("alice", 1001, _TRAIN, 41207, 68_236, 1.3, 0.8, "R", 9100, 97, 2_000_000, _READER, None, "slurm:48213"),
    Job("alice", 1001, _TRAIN, 41208, 68_236, 1.3, 0.8, "R", 9080, 97, 2_000_000, _READER, None, "slurm:48213"),
    Job("bob", 1002, "python train.py --data /data/imagenet --workers 4", 52110, 21_526, 0.4, 0.3, "S", 4300, 41, 0,
        ("pt_data_worker", 4, 1.0, "R", 900_000), "segment-bob", "docker:3f9a1c77d0b2"),
    Job("carol", 1003, "python rollout.py --env HalfCheetah-v5 --envs 1", 60331, 9_866, 1.02, 1.0, "R", 2900, 22),
    Job("dave", 1004, "/home/dave/.venv/bin/python -m ipykernel_launcher -f kernel-9c1e.json", 33915, 41_976, 0.01, 0.01, "S", 5100, 18),
    Job("erin", 1005, "python -m ablation.train --root /mnt/nfs/openimages", 70222, 33_406, 0.08, 0.05, "S", 3800, 33, 4_000_000,
        ("pt_data_worker", 6, 0.06, "D", 31_000_000), "resnet-ablation-7", _POD),
    Job("frank", 1006, "VLLM::EngineCore --model meta-llama/Llama-3.1-70B", 80451, 73_896, 1.1, 0.7, "R", 7700, 120, 0,
        None, "vllm-chat", "docker:b81e55a0c4f9"),
    Job("alice", 1001, "/opt/conda/bin/python -u finetune.py --resume last", 45810, 70_108, 1.2, 0.7, "R", 8800, 95, 1_500_000,
        ("pt_data_worker", 8, 0.3, "S", 200_000), None, "slurm:48219"),
)  # fmt: skip


def within(second: float, span: tuple[float, float]) -> bool:
    """Whether the second of the round lies in the span."""
    return span[0] <= second < span[1]


def bus(index: int) -> str:
    """The PCI address of a GPU, as the kernel writes it."""
    return f"{index // 8:04x}:{BUSES[index % 8]:02x}:00.0"


def uuid(seed: int, index: int) -> str:
    """The same for the same seed."""
    return f"GPU-{UUID(int=Random(f'{seed}:{index}').getrandbits(128), version=4)}"  # noqa: S311


class Node:
    """The machine at one moment of its story. `story`: seconds since the story began; `t`: seconds since the epoch."""

    def __init__(self, seed: int, gpus: int, processes: int | None, t: float, story: float) -> None:
        self.seed, self.gpus, self.born = seed, gpus, t - story
        self.processes = processes
        self.noise = Random(seed)  # noqa: S311  made-up figures
        self.energy = [1_000_000.0 * (7_000 + 13 * i) for i in range(gpus)]
        self.move(t, story)
        self.temps = [self.load(i, self.second).temp for i in range(gpus)]

    def move(self, t: float, story: float) -> None:
        """To another moment. Before the story begins (story < 0) all is as at its first second."""
        self.t, self.round, self.second = t, max(int(story // ROUND), 0), story % ROUND if story > 0 else 0.0

    def down(self) -> bool:
        """Whether no driver is loaded."""
        return within(self.second, DOWN)

    def silent(self, index: int) -> bool | int:
        """15 (NVML's code) for a lost GPU, True for a hung one, False for one that answers."""
        if index == 7 and within(self.second, LOST):
            return 15
        return index == 6 and within(self.second, HUNG)

    def load(self, index: int, second: float) -> Load:
        """What the GPU does then."""
        if index >= 8:
            return FREE if index % 8 == 4 else HEALTHY
        if index == 1 and within(second, HOT):
            return replace(HEALTHY, clock=1140, power=410, temp=90, reasons=HW_HEAT)
        if index == 6 and within(second, BRAKE):
            return replace(LOADS[6], clock=975, power=298, temp=55, reasons=BRAKED)
        if index == 6 and within(second, (CRASHED, AGAIN)):
            return FREE
        return LOADS[index]

    def row(self, index: int, passed: float, counters: bool) -> list[int | None]:
        """COLUMNS of one GPU. passed: seconds since the last look; counters: whether PCIe traffic is asked this time."""
        load = self.load(index, self.second)
        swing = self.noise.uniform(-1, 1)
        self.temps[index] += (load.temp - self.temps[index]) * min(passed / 4, 1)
        power = max(load.power * (1 + 0.02 * swing + load.swing / 400 * self.noise.uniform(-1, 1)), 60.0)
        self.energy[index] += power * 1000 * passed
        traffic = [round(size * (1 + swing / 9)) if counters else None for size in (load.tx, load.rx)]
        clock = load.clock - abs(round(swing * 3)) * 15 * (load.util > 0)
        return [
            round(min(max(load.util + load.swing * swing, 0), 100)), round(max(load.mem_util * (1 + swing * load.swing / 100), 0)),
            load.memory, round(self.temps[index] + swing * 0.6), round(power * 1000), clock, MEM_CLOCK, load.reasons,
            round(self.energy[index]), None, *traffic, 2 * self.ill(index), 0,
        ]  # fmt: skip

    def ill(self, index: int) -> bool:
        """Whether the GPU has had its memory error."""
        return index == 7 and within(self.second, ECC)

    def generation(self, index: int) -> int:
        """How many times the GPU's program was started again."""
        return 2 * self.round + (index == 6 and self.second >= AGAIN) + (self.second >= DOWN[1])

    def jobs(self, index: int) -> list[Job]:
        """The programs on a GPU now."""
        gone = self.down() or self.silent(index) is not False or (index == 6 and within(self.second, (CRASHED, AGAIN)))
        if gone or (index >= 8 and index % 8 == 4):
            return []
        first = JOBS[index] if index < 8 else replace(JOBS[0], pid=JOBS[0].pid + 100_000 + index, job=f"slurm:{48300 + index // 4}")
        first = replace(first, pid=first.pid + 1777 * self.generation(index))
        more = 0 if self.processes is None else max((self.processes - index - 1) // self.gpus, 0)
        extra = replace(JOBS[3], memory=310, cpu=0.02, main=0.02, state="S", command="python serve.py --small")
        return [first, *(replace(extra, pid=200_000 + index * 4_000 + j) for j in range(more))]

    def host(self, job: Job) -> dict[str, Any]:
        """HOST of a program."""
        ran = self.t - self.born + 86_400.0
        children = []
        if job.children:
            name, many, cores, state, read = job.children
            children = [[job.pid + 40 + j, name, round(cores * ran, 2), state, round(read * ran)] for j in range(many)]
        return {
            "uid": job.uid, "user": job.user, "command": job.command, "start": round((BOOTED - 86_400 + job.pid % 600) * TICKS),
            "cpu": round(job.cpu * ran, 2), "main": round(job.main * ran, 2), "state": job.state, "rss": job.rss, "threads": job.threads,
            "read": round(job.read * ran), "rchar": round(job.read * 1.2 * ran), "children": children,
            "container": job.container, "job": job.job,
        }  # fmt: skip

    def identity(self, index: int) -> Message:
        """The "gpu" line."""
        ill = self.ill(index)
        return {
            "k": "gpu", "i": index, "uuid": uuid(self.seed, index), "name": NAME, "bus": bus(index), "mem_total": MEMORY,
            "power_limit": LIMIT_W * 1000, "power_default": LIMIT_W * 1000, "temp_limit": None,
            "temp_margin": LIMIT_C - round(self.temps[index]), "sm_clock_max": CLOCK, "pcie_gen": 5, "pcie_gen_max": 5, "pcie_width": 16,
            "pcie_width_max": 16, "mig": False, "ecc_mode": 1, "compute_mode": 0, "persistence": 1, "remap_pending": ill,
            "remap_failed": False, "recovery": 1 if ill else 0,
        }  # fmt: skip

    def beginning(self) -> Iterator[Message]:
        """What a child says that starts now."""
        if self.down():
            yield {"k": "init", "t": self.t, "code": 9, "error": "Driver Not Loaded", "driver": None, "cuda": None, "count": None}
            return
        yield {"k": "init", "t": self.t, "code": 0, "error": None, "driver": DRIVER, "cuda": CUDA, "count": self.gpus}
        for index in range(self.gpus):
            if self.silent(index) is False:
                yield self.identity(index)
                yield {"k": "why", "i": index, "codes": {"fan": 3}}

    def programs(self) -> Message:
        """The "p" line."""
        jobs = {index: self.jobs(index) for index in range(self.gpus)}
        listed = {}
        for index, found in jobs.items():
            if self.silent(index) is False:
                util = round(self.load(index, self.second).util)
                listed[str(index)] = [[job.pid, job.memory, "C", util if job is found[0] else 0] for job in found]
        return {"k": "p", "t": self.t, "g": listed, "h": {str(job.pid): self.host(job) for found in jobs.values() for job in found}}

    def full(self) -> Message:
        """The doctor's own evidence: the lines of `hosts/nvml_child.py`."""
        lines: list[Message] = [{"asking": "init"}]
        lines += [{"init": "ok"}, {"driver": DRIVER, "nvml": f"12.{DRIVER}", "cuda": CUDA, "count": self.gpus}]
        for index in range(self.gpus):
            silent = self.silent(index)
            if silent is True:
                continue
            lines += [{"asking": index}, {"gpu": index, "error": "GPU is lost", "reason": 15} if silent else self.card(index)]
        text = "\n".join(json.dumps(line) for line in [*lines, {"done": True}])
        return {"k": "full", "t": self.t, "text": text}

    def card(self, index: int) -> Message:
        """One GPU of `full`."""
        load, temp, ill = self.load(index, self.second), round(self.temps[index]), self.ill(index)
        jobs = self.jobs(index)
        no = {"error": "Not Supported", "code": 3}
        memory = {"total": MEMORY << 20, "free": (MEMORY - load.memory) << 20, "used": load.memory << 20}
        return {
            "gpu": index, "name": NAME, "uuid": uuid(self.seed, index), "capability": [9, 0], "memory": memory,
            "pci": {"busId": f"0000{bus(index).upper()}", "pciDeviceId": 0x233010DE},
            "utilization": {"gpu": round(load.util), "memory": round(load.mem_util)},
            "temperature": temp, "slowdown": no, "margin": LIMIT_C - temp, "fan": no,
            "power": round(load.power * 1000), "power_limit": LIMIT_W * 1000, "power_default": LIMIT_W * 1000,
            "clock_sm": load.clock, "clock_sm_max": CLOCK, "pstate": 0, "reasons": load.reasons,
            "ecc": 2 * ill, "ecc_total": 2 * ill, "remapped": [0, int(ill), int(ill), 0], "retired_pending": no, "recovery": int(ill),
            "pcie_gen": 5, "pcie_gen_max": 5, "pcie_width": 16, "pcie_width_max": 16, "pcie_replays": 0, "mig": [0, 0],
            "compute_mode": 0, "persistence": 1, "display": 0, "nvlinks": [18, 0, 0], "fabric": {"state": 3, "status": 0},
            "processes": [
                {"pid": j.pid, "kind": "C", "memory": j.memory << 20, "name": j.name, "uid": j.uid} for j in jobs
            ],
        }  # fmt: skip

    def happened(self, before: float) -> Iterator[Message]:
        """What the story tells between that second of the round and now."""
        now = self.second if self.second >= before else self.second + ROUND
        for at, index, what in STORY:
            if not (before < at <= now or before < at + ROUND <= now) or (index is not None and index >= self.gpus):
                continue
            if index is None:
                yield from self._driver(what)
                continue
            yield from self._xids(index, what)
            if what == "hung":
                yield {"k": "hung", "t": self.t, "i": index, "call": "nvmlDeviceGetTemperature", "for": 2.0}
            elif not self.down() and self.silent(index) is False:
                yield self.identity(index)
            yield self.full()

    def _driver(self, what: str) -> Iterator[Message]:
        if what == "driver unloaded":
            yield {"k": "bye", "t": self.t, "code": 9, "error": "Driver Not Loaded"}
        else:
            yield {"k": "log", "t": self.t, "text": LOADED}
            yield from self.beginning()
            yield self.programs()
            yield self.full()

    def _xids(self, index: int, what: str) -> Iterator[Message]:
        place, pid = f"PCI:{bus(index)[:-2]}", JOBS[index].pid + 1777 * self.generation(index)
        name = JOBS[index].name
        lines = {
            "Xid 31": [(31, f"pid={pid}, name={name}, Ch 00000013, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC2 GPCCLIENT_T1_3 "
                            "faulted @ 0x7f2a_3c000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ")],
            "uncorr": [(94, f"pid={pid}, name={name}, Contained: SM (0x1). RST: No, D-RST: No"),
                       (63, "pid='<unknown>', name=<unknown>, Row Remapper: New row (0x00000000043b0d1c) marked for remapping, "
                            "reset gpu to activate.")],
            "Xid 79": [(79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")],
        }  # fmt: skip
        for code, text in lines.get(what[:6], ()):
            if code != 79:  # NVML has no event of a GPU that is gone
                yield {"k": "xid", "t": self.t, "i": index, "code": code}
            yield {"k": "log", "t": self.t, "text": f"NVRM: Xid ({place}): {code}, {text}"}
        if what.startswith("Xid 79"):
            yield {"k": "log", "t": self.t, "text": f"NVRM: GPU {bus(index)}: GPU has fallen off the bus."}


def messages(
    seed: int = 7,
    seconds: float | None = ROUND,
    gpus: int = 8,
    speed: float = 1.0,
    *,
    interval: float = 1.0,
    start: float = 0.0,
    processes: int | None = None,
    at: float = 1_764_500_000.0,
    proc_every: float = 5.0,
    full_every: float = 60.0,
    pcie_every: float = 10.0,
) -> Iterator[Message]:
    """The lines of `seconds` of simulated time (None: for ever), one sample each `interval` seconds; nothing waits.

    speed: how fast the story goes (0: it stands still). start: the second of the story at which it begins. at: the time of the
    first sample, seconds since the epoch. processes: how many in all, where each GPU's own are not enough. *_every: seconds.
    """
    node = Node(seed, gpus, processes, at, start)
    yield from node.beginning()
    yield {"k": "log", "t": at, "text": LOADED}
    step = max(interval, 0.001)
    due = {"p": 0.0, "full": 0.0, "pcie": 0.0, "init": 2.0}
    number = 0
    while seconds is None or number * step < seconds:
        passed = number * step
        before = node.second
        node.move(at + passed, start + passed * speed)
        if number:
            yield from node.happened(before)
        if node.down():
            if passed >= due["init"]:
                due["init"] = passed + 2.0
                yield from node.beginning()
        else:
            counters = passed >= due["pcie"]
            due["pcie"] = passed + pcie_every if counters else due["pcie"]
            yield {"k": "s", "t": node.t, "n": number, "g": [_answer(node, i, step, counters) for i in range(gpus)]}
            if passed >= due["p"]:
                due["p"] = passed + proc_every
                yield node.programs()
            if passed >= due["full"]:
                due["full"] = passed + full_every
                yield node.full()
        number += 1


def _answer(node: Node, index: int, passed: float, counters: bool) -> list[int | None] | int | None:
    silent = node.silent(index)
    return node.row(index, passed, counters) if silent is False else None if silent is True else silent


def main(**options: Any) -> None:
    """The child: prints the lines as their time comes, for ever; ends when its reader is gone.

    options: those of `messages`, and since: when the story began (seconds since the epoch), so that a child that is started anew
    goes on where it was; default: now.
    """
    now = time.time()
    since = float(options.pop("since", None) or now)
    speed = float(options.get("speed", 1.0))
    options["start"] = float(options.get("start", 0.0)) + max(now - since, 0.0) * speed
    try:
        for message in messages(**{"seconds": None, "at": now, **options}):
            if (wait := message.get("t", 0.0) - time.time()) > 0:
                sys.stdout.flush()
                time.sleep(wait)
            sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")
            if message["k"] != "gpu":
                sys.stdout.flush()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.stderr.close()


if __name__ == "__main__":  # python -m ongpu.hosts.sampling.demo '{"gpus": 64, "speed": 10}'
    main(**(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}))
