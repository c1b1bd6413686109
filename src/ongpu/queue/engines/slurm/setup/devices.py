"""The checks that are about the GPUs, the fences around them and the machine: the configuration compared with it. Pure."""

import re
from collections.abc import Iterator, Sequence

from ongpu.queue.engines.slurm.nodes import types
from ongpu.queue.engines.slurm.rows import hosts
from ongpu.queue.engines.slurm.setup.conf import Line
from ongpu.queue.engines.slurm.setup.files import Files
from ongpu.queue.engines.slurm.setup.here import Gpu, Here
from ongpu.queue.engines.slurm.setup.traps import Found


def cpus(line: Line) -> int:
    """The CPUs of a NodeName line; 0: not told."""

    def number(name: str, default: int) -> int:
        value = line.pairs.get(name, "")
        return int(value) if value.isdecimal() else default

    if told := number("cpus", 0):
        return told
    if "corespersocket" not in line.pairs and "socketsperboard" not in line.pairs and "sockets" not in line.pairs:
        return 0
    sockets = number("sockets", 0) or number("socketsperboard", 1) * number("boards", 1)
    return sockets * number("corespersocket", 1) * number("threadspercore", 1)


# --- the GPUs


def named(files: Files) -> Iterator[tuple[str, Line]]:
    """(name, line) of each node of slurm.conf."""
    for line in files.slurm.all("NodeName"):
        for name in hosts(line.pairs["nodename"]):
            yield name, line


def _mine(files: Files, here: Here) -> tuple[str, Line] | None:
    """The line of this machine."""
    if not files.ours:
        return None
    same = [pair for pair in named(files) if here.host in (pair[0], pair[1].pairs.get("nodehostname"))]
    return same[0] if same else None


def gres_of(files: Files, node: str) -> list[tuple[Line, str, list[str]]]:
    """(line, type, device files) of gres.conf that are about that node."""
    found = []
    for line in files.gres.lines:
        if line.pairs.get("name", "").lower() != "gpu":
            continue
        names = hosts(line.pairs["nodename"]) if "nodename" in line.pairs else [node]
        if node in names:
            told = line.pairs.get("file") or line.pairs.get("multiplefiles", "")
            devices = [device for word in _words(told) for device in hosts(word)]
            found.append((line, line.pairs.get("type", ""), devices))
    return found


def _words(text: str) -> list[str]:
    """Of a list with commas, those within brackets aside."""
    return [word for word in re.split(r",(?![^\[]*\])", text) if word]


def gpus(files: Files, here: Here) -> Iterator[Found]:
    """What slurm.conf and gres.conf say of them, compared with each other and with what is there."""
    wanted = {name: types(line.pairs.get("gres", "")) for name, line in named(files)}
    any_gpu = (
        any(wanted.values()) or any(line.pairs.get("name", "").lower() == "gpu" for line in files.gres.lines) or (files.ours and here.gpus)
    )
    if any_gpu and not any(word.lower() == "gpu" for word in files.slurm.words("GresTypes")):
        yield Found("no-gres-types", files.slurm.place("GresTypes"), {}, "GresTypes=gpu")
    auto = [(line, line.pairs["autodetect"].lower()) for line in files.gres.lines if line.pairs.get("autodetect", "off").lower() != "off"]
    for line, what in auto:
        plugin = f"gpu_{what}.so"
        if files.ours and here.plugins is not None and plugin not in here.plugins:
            yield Found(
                "autodetect-unsupported",
                line.place,
                {"what": what, "plugin": plugin},
                _gres_lines(here) or "Name=gpu File=/dev/nvidia[0-3]",
            )
    for node, line in named(files):
        told = gres_of(files, node)
        for one, _, devices in told:
            if not devices and not auto:
                yield Found("gres-without-file", one.place, {}, "Name=gpu File=/dev/nvidia[0-3]")
        count = sum(len(devices) or int(one.pairs.get("count", "1")) for one, _, devices in told if one.pairs.get("count", "1").isdecimal())
        conf = len(wanted[node])
        if not auto and (told or conf) and count != conf and not (conf == 0 and not told):
            values = {"node": node, "conf": conf, "count": count, "other": "gres.conf"}
            yield Found("gres-count-differs", line.place, values, f"NodeName={node} ... Gres={_gres_word(told) or f'gpu:{count}'}")
        here_types = {kind for _, kind, _ in told if kind}
        for kind in sorted(set(wanted[node]) - here_types - {""}):
            if told and not auto:
                yield Found("gres-type-differs", line.place, {"node": node, "type": kind}, f"Name=gpu Type={kind} File=...")
    yield from _devices(files, here, bool(auto))


def _gres_word(told: Sequence[tuple[Line, str, list[str]]]) -> str:
    counts: dict[str, int] = {}
    for _, kind, devices in told:
        counts[kind] = counts.get(kind, 0) + len(devices)
    return ",".join(f"gpu:{kind}:{n}" if kind else f"gpu:{n}" for kind, n in counts.items() if n)


def _gres_lines(here: Here) -> str:
    return " / ".join(f"Name=gpu Type={gpu.type} File=/dev/nvidia{minor(gpu)}" for gpu in here.gpus[:4])


def minor(gpu: Gpu) -> int:
    """The number of its device file: its place on the bus, where nothing else is told."""
    return gpu.index if gpu.minor is None else gpu.minor


def _devices(files: Files, here: Here, auto: bool) -> Iterator[Found]:
    """Compared with what this machine has."""
    mine = _mine(files, here)
    if mine is None:
        return
    node, line = mine
    told = gres_of(files, node)
    listed = [device for _, _, devices in told for device in devices]
    for one, _, devices in told:
        for device in devices:
            number = re.fullmatch(r"/dev/nvidia(\d{1,4})", device)
            if number and int(number[1]) not in here.nodes:
                yield Found("gres-device-missing", one.place, {"device": device}, "systemctl enable --now nvidia-persistenced")
    if not here.told:
        return
    if not auto:
        for gpu in here.gpus:
            device = f"/dev/nvidia{minor(gpu)}"
            if device not in listed and (listed or types(line.pairs.get("gres", ""))):
                values = {"index": gpu.index, "device": device}
                yield Found(
                    "gpu-left-open",
                    told[-1][0].place if told else files.gres.name or "gres.conf",
                    values,
                    f"Name=gpu Type={gpu.type} File={device}",
                )
    conf = len(types(line.pairs.get("gres", "")))
    if conf != len(here.gpus) and (conf or here.gpus):
        values = {"node": node, "conf": conf, "count": len(here.gpus), "other": here.host}
        yield Found("gres-count-differs", line.place, values, f"Gres={gres_word(here)}" if here.gpus else "")
    order = [re.sub(r"\D", "", device) for device in listed if device.startswith("/dev/nvidia")]
    by_bus = [str(minor(gpu)) for gpu in here.gpus if not gpu.mig]
    if sorted(order) == sorted(by_bus) and order != by_bus:
        first = next(gpu for gpu, place in zip((g for g in here.gpus if not g.mig), order, strict=False) if str(minor(gpu)) != place)
        yield Found("order-differs", told[0][0].place, {"index": first.index, "device": f"/dev/nvidia{minor(first)}"}, _gres_lines(here))
    for gpu in here.gpus:
        if gpu.mig and f"/dev/nvidia{minor(gpu)}" in listed:
            yield Found("mig-as-whole", told[0][0].place, {"index": gpu.index}, "AutoDetect=nvml")
    models = sorted({gpu.name for gpu in here.gpus})
    prolog = files.programs.get(files.slurm.get("TaskProlog")) or ""
    if len(models) > 1 and "CUDA_DEVICE_ORDER" not in prolog:
        yield Found(
            "cuda-order", files.slurm.place("TaskProlog"), {"models": ", ".join(models)}, "TaskProlog=/etc/slurm/ongpu-taskprolog.sh"
        )


def gres_word(here: Here) -> str:
    """Gres= of this machine: "gpu:a100:2,gpu:v100:1"; GPUs that are partitioned are left out."""
    counts: dict[str, int] = {}
    for gpu in here.gpus:
        if not gpu.mig:
            counts[gpu.type] = counts.get(gpu.type, 0) + 1
    return ",".join(f"gpu:{kind}:{count}" for kind, count in counts.items())


# --- whether jobs are kept to theirs


def fence(files: Files, here: Here) -> Iterator[Found]:
    """Whether a job can use what it was not given."""
    conf, cgroup = files.slurm, files.cgroup
    plugins = [word.lower().removeprefix("task/") for word in conf.words("TaskPlugin")]
    if "cgroup" not in plugins:
        yield Found("devices-not-constrained", conf.place("TaskPlugin"), {"what": "TaskPlugin"}, "TaskPlugin=task/cgroup,task/affinity")
    if cgroup.get("ConstrainDevices").lower() not in ("yes", "true", "1"):
        yield Found("devices-not-constrained", cgroup.name or "cgroup.conf", {"what": "ConstrainDevices"}, "ConstrainDevices=yes")
    if cgroup.get("ConstrainRAMSpace").lower() not in ("yes", "true", "1"):
        yield Found("memory-not-limited", cgroup.name or "cgroup.conf", {"what": "ConstrainRAMSpace"}, "ConstrainRAMSpace=yes")
    track = conf.get("ProctrackType", "proctrack/cgroup")
    if not track.lower().endswith("cgroup"):
        yield Found("processes-escape", conf.place("ProctrackType"), {"value": track}, "ProctrackType=proctrack/cgroup")
    if not files.ours or not here.cgroup:
        return
    plugin = cgroup.get("CgroupPlugin", "autodetect").lower().removeprefix("cgroup/")
    if plugin in ("v1", "v2") and plugin != here.cgroup:
        yield Found(
            "cgroup-version",
            cgroup.place("CgroupPlugin"),
            {"value": f"cgroup/{plugin}", "have": here.cgroup},
            f"CgroupPlugin=cgroup/{here.cgroup}",
        )
    if here.cgroup == "v2" and here.version and here.version < (22, 5):
        yield Found("cgroup-too-new", cgroup.name or "cgroup.conf", {"version": _dotted(here.version)})
    if here.cgroup == "v2" and not here.systemd and cgroup.get("IgnoreSystemd").lower() not in ("yes", "true", "1"):
        yield Found("cgroup-without-systemd", cgroup.name or "cgroup.conf", {}, "IgnoreSystemd=yes")


def _dotted(version: Sequence[int]) -> str:
    return f"{version[0]}.{version[1]:02}" + (f".{version[2]}" if len(version) > 2 else "")


# --- compared with the machine


def machine(files: Files, here: Here) -> Iterator[Found]:
    """CPUs and memory of this node, as configured and as they are."""
    conf = files.slurm
    loose = "config_overrides" in conf.get("SlurmdParameters").lower()
    if loose:
        kept = ",".join(word for word in conf.words("SlurmdParameters") if word.lower() != "config_overrides")
        yield Found("hardware-not-checked", conf.place("SlurmdParameters"), {}, f"SlurmdParameters={kept}" if kept else "")
    user = conf.get("SlurmUser", "root")
    if files.ours and user not in here.users and not user.isdecimal() and user != "root":
        yield Found("no-such-user", conf.place("SlurmUser"), {"value": user}, f"adduser --system --group --no-create-home {user}")
    if not files.ours:
        return
    mine = _mine(files, here)
    if mine is None:
        yield Found(
            "no-such-node", conf.name, {"host": here.host}, f"NodeName={here.host} CPUs={here.cpus} RealMemory={roomy(here.memory)}"
        )
        return
    node, line = mine
    count = cpus(line)
    if count and count != here.cpus and not (loose and count > here.cpus) and count != here.sockets * here.cores:
        yield Found("cpus-differ", line.place, {"node": node, "conf": count, "count": here.cpus}, f"CPUs={here.cpus}")
    memory = line.pairs.get("realmemory", "")
    number = int(memory) if memory.isdecimal() else 0
    if not number:
        yield Found("memory-not-told", line.place, {"node": node}, f"RealMemory={roomy(here.memory)}")
    elif number > here.memory:
        if not loose:
            yield Found(
                "memory-too-large", line.place, {"node": node, "conf": number, "count": here.memory}, f"RealMemory={roomy(here.memory)}"
            )
    elif number > here.memory * 0.985 and not line.pairs.get("memspeclimit"):
        yield Found(
            "memory-to-the-last", line.place, {"node": node, "conf": number, "count": here.memory}, f"RealMemory={roomy(here.memory)}"
        )


def roomy(memory: int) -> int:
    """MiB that jobs may have: a twentieth is left to the system, at least 1 and at most 16 GiB."""
    return max(memory // 2, memory - max(1024, min(memory // 20, 16_384)))
