"""Looks for the traps in a configuration of Slurm: functions of the files, of what this machine has and of the Slurm that runs. Pure."""

import re
import shlex
from collections.abc import Iterator, Sequence

from ongpu.queue.engines.slurm.nodes import types
from ongpu.queue.engines.slurm.setup.conf import Line
from ongpu.queue.engines.slurm.setup.devices import cpus, fence, gpus, machine, named
from ongpu.queue.engines.slurm.setup.files import Files
from ongpu.queue.engines.slurm.setup.here import Here
from ongpu.queue.engines.slurm.setup.traps import ERROR, NOTE, WARNING, Found

SCHEDULER = (
    "nohold_on_prolog_fail,batch_sched_delay=0,sched_interval=5,sched_min_interval=2000,bf_interval=5,bf_continue,default_queue_depth=1000"
)
HOOK = "ongpu gate"  # what stands in our scripts
PROGRAMS = ("Prolog", "Epilog", "TaskProlog", "TaskEpilog", "HealthCheckProgram", "PrologSlurmctld", "EpilogSlurmctld")
# Measured on 22.05.8 ("Parsing error at unrecognized key", fatal), and slurm.conf(5) of 20.02 to 24.11
OBSOLETE = {
    "cachegroups": "GroupUpdateForce, GroupUpdateTime", "checkpointtype": "-", "fastschedule": "SlurmdParameters=config_overrides",
    "cryptotype": "CredType", "controlmachine": "SlurmctldHost", "controladdr": "SlurmctldHost", "backupcontroller": "SlurmctldHost",
    "backupaddr": "SlurmctldHost", "sallocdefaultcommand": "LaunchParameters=use_interactive_step", "jobcheckpointdir": "-",
    "schedulerport": "-", "schedulerauth": "-", "memlimitenforce": "JobAcctGatherParams=OverMemoryKill",
    "taskaffinity": "TaskPlugin=task/affinity", "cgroupreleaseagentdir": "-",
}  # fmt: skip
MEMORY = ("/tmp", "/run", "/var/run", "/dev/shm")


def check(files: Files, here: Here) -> list[Found]:
    """All traps, the worst first, in the order of the files."""
    if not files.slurm.there:
        return [Found("no-configuration", "slurm.conf", {"file": "slurm.conf"}, "ongpu queue setup slurm --single-node --write DIR")]
    found = [one for part in (_form, _select, gpus, fence, machine, _programs, _scheduler, _keeping, _running) for one in part(files, here)]
    order = (ERROR, WARNING, NOTE)
    return sorted(_once(found), key=lambda one: order.index(one.trap.severity))


def _once(found: Sequence[Found]) -> Iterator[Found]:
    seen = set()
    for one in found:
        key = (one.slug, one.place, str(sorted(one.values.items(), key=str)))
        if key not in seen:
            seen.add(key)
            yield one


# --- the files as such


def _form(files: Files, here: Here) -> Iterator[Found]:
    several = ("nodename", "partitionname", "downnodes", "nodeset", "slurmctldhost", "frontendname")
    for conf in (files.slurm, files.cgroup):
        seen: dict[str, list[Line]] = {}
        for line in conf.lines:
            for name in line.pairs if line.first not in several else ():
                seen.setdefault(name, []).append(line)
        for name, lines in seen.items():
            shown = _shown(lines[-1], name)
            if name in OBSOLETE:
                yield Found("obsolete-parameter", lines[-1].place, {"name": shown, "instead": OBSOLETE[name]})
            if len(lines) > 1 and len({line.pairs[name] for line in lines}) > 1:
                values = [line.pairs[name] for line in lines]
                joined = (
                    ",".join(dict.fromkeys(word for value in values for word in value.split(","))) if name.endswith("parameters") else ""
                )
                yield Found("set-twice", lines[-1].place, {"name": shown, "times": len(lines)}, f"{shown}={joined}" if joined else "")
    for file, mode in files.modes.items():
        if file.endswith(".conf") and not int(mode, 8) & 0o004:
            yield Found("not-readable-by-all", file, {"file": file, "mode": mode}, f"chmod 644 {file}")
        if file.endswith("munge.key") and int(mode, 8) & 0o077:
            yield Found("munge-key-open", file, {"file": file, "mode": mode}, f"chown munge:munge {file} && chmod 400 {file}")


def _shown(line: Line, name: str) -> str:
    """The name as it was written."""
    match = re.search(rf"(?i)(?<![a-z]){re.escape(name)}(?=\s*[+-]?=)", line.text)
    return match[0] if match else name


# --- which resources are shared out


def _select(files: Files, here: Here) -> Iterator[Found]:
    conf = files.slurm
    kind = conf.get("SelectType", "select/linear" if here.version and here.version < (23, 11) else "select/cons_tres").lower()
    if kind.endswith("linear"):
        yield Found("whole-node-jobs", conf.place("SelectType"), {"what": f"SelectType={kind}"}, "SelectType=select/cons_tres")
    if kind.endswith("cons_res"):
        yield Found("select-without-gpus", conf.place("SelectType"), {}, "SelectType=select/cons_tres")
    for part in conf.all("PartitionName"):
        if part.pairs.get("oversubscribe", "").upper() == "EXCLUSIVE" or part.pairs.get("exclusiveuser", "").upper() == "YES":
            yield Found("whole-node-jobs", part.place, {"what": "OverSubscribe=EXCLUSIVE"}, "OverSubscribe=NO")
        if part.pairs.get("maxtime", "INFINITE").upper() in ("INFINITE", "UNLIMITED", "-1") and "defaulttime" not in part.pairs:
            yield Found("no-time-limits", part.place, {"node": part.pairs["partitionname"]}, "DefaultTime=1-00:00:00")
    value = conf.get("SelectTypeParameters")
    counted = "memory" in value.lower()
    if value and not counted and not kind.endswith("linear"):  # it is counted where nothing is said
        yield Found("memory-not-counted", conf.place("SelectTypeParameters"), {"value": value}, "SelectTypeParameters=CR_Core_Memory")
    names = ("DefMemPerCPU", "DefMemPerGPU", "DefMemPerNode")
    parts = list(conf.all("PartitionName"))
    everywhere = bool(parts) and all(
        any(name.lower() in part.pairs or "defmempergpu" in part.text.lower() for name in names) for part in parts
    )
    if (counted or not value) and not everywhere and all(conf.get(name, "0") in ("0", "UNLIMITED") for name in names):
        yield Found("no-default-memory", conf.name, {}, f"DefMemPerCPU={_per_cpu(files, here)}")
    named_there = any(word.lower().startswith("gres/") for word in conf.words("AccountingStorageTRES"))
    database = conf.get("AccountingStorageType").lower().endswith("slurmdbd")
    if database and not any(word.lower() == "gres/gpu" for word in conf.words("AccountingStorageTRES")):
        yield Found("gpus-not-counted", conf.place("AccountingStorageTRES"), {}, "AccountingStorageTRES=gres/gpu")
    if named_there and not database:
        yield Found("count-needs-database", conf.place("AccountingStorageTRES"), {}, "AccountingStorageType=accounting_storage/slurmdbd")


def _per_cpu(files: Files, here: Here) -> int:
    shares = [
        int(line.pairs["realmemory"]) // max(1, cpus(line))
        for line in files.slurm.all("NodeName")
        if line.pairs.get("realmemory", "").isdecimal() and cpus(line)
    ]
    return max(1, min(shares, default=here.memory * 9 // 10 // max(1, here.cpus)))


# --- the scripts


def _programs(files: Files, here: Here) -> Iterator[Found]:
    conf = files.slurm
    for name in PROGRAMS:
        program = conf.get(name).strip('"')
        if conf.off(name) or not program.startswith("/"):
            continue
        if program in files.programs and files.programs[program] is None:
            yield Found("script-missing", conf.place(name), {"name": name, "program": program}, f"chmod 755 {program}")
        if program in files.lost:
            values = {"script": program, "program": files.lost[program]}
            yield Found("script-without-ongpu", program, values, f"ONGPU={shlex.quote(here.ongpu)}")
        if program in files.owners and not name.startswith("Task"):
            yield Found("script-of-a-user", conf.place(name), {"name": name, "program": files.owners[program]}, "chown root: and chmod 755")
        body = files.programs.get(program) or ""
        if re.search(r"\$\{?CUDA_VISIBLE_DEVICES", body) and "unset CUDA_VISIBLE_DEVICES" not in body and not name.startswith("Task"):
            yield Found("script-reads-cuda", conf.place(name), {"program": program}, "SLURM_JOB_GPUS")
    prolog = conf.get("Prolog").strip('"')
    if not conf.off("Prolog"):
        if "nohold_on_prolog_fail" not in conf.get("SchedulerParameters").lower():
            words = [*conf.words("SchedulerParameters"), "nohold_on_prolog_fail"]
            yield Found("prolog-holds-jobs", conf.place("SchedulerParameters"), {}, f"SchedulerParameters={','.join(words)}")
        text = files.programs.get(prolog)
        if text is not None and "MARK=" not in text:
            yield Found(
                "prolog-drains-node",
                conf.place("Prolog"),
                {"program": prolog},
                "Prolog=/etc/slurm/ongpu-prolog.sh  # ongpu gate install slurm",
            )
    if conf.off("HealthCheckProgram") or conf.off("HealthCheckInterval"):
        line = "HealthCheckProgram=/etc/slurm/ongpu-healthcheck.sh / HealthCheckInterval=60 / HealthCheckNodeState=ANY"
        yield Found("no-health-check", conf.place("HealthCheckProgram"), {}, line)
    elif conf.get("HealthCheckInterval").isdecimal() and int(conf.get("HealthCheckInterval")) > 600:
        yield Found(
            "health-check-late", conf.place("HealthCheckInterval"), {"value": conf.get("HealthCheckInterval")}, "HealthCheckInterval=60"
        )


# --- the scheduler


def _scheduler(files: Files, here: Here) -> Iterator[Found]:
    conf = files.slurm
    told = {word.partition("=")[0].lower(): word.partition("=")[2] for word in conf.words("SchedulerParameters")}
    slow = [
        f"{name}={default}"
        for name, default, most in (("sched_interval", 60, 20), ("bf_interval", 30, 20), ("batch_sched_delay", 3, 1))
        if not told.get(name, "").isdecimal() or int(told[name]) > most
    ]
    if slow:
        kept = [word for word in conf.words("SchedulerParameters") if word.partition("=")[0].lower() not in SCHEDULER]
        yield Found(
            "slow-scheduler",
            conf.place("SchedulerParameters"),
            {"what": ", ".join(slow)},
            f"SchedulerParameters={','.join([*kept, SCHEDULER])}",
        )
    if "requeue_setup_env_fail" in told:
        yield Found("setup-holds-jobs", conf.place("SchedulerParameters"), {})
    if conf.get("JobRequeue", "1") == "0":
        yield Found("jobs-not-requeued", conf.place("JobRequeue"), {}, "JobRequeue=1")
    back = conf.get("ReturnToService", "0")
    if back != "2":
        yield Found("stays-down", conf.place("ReturnToService"), {"value": back}, "ReturnToService=2")
    if conf.off("PropagateResourceLimits") and conf.off("PropagateResourceLimitsExcept"):
        yield Found("limits-carried-over", conf.name, {}, "PropagateResourceLimitsExcept=MEMLOCK,NOFILE")


# --- what outlives a reboot, and a job's end


def _keeping(files: Files, here: Here) -> Iterator[Found]:
    conf = files.slurm
    place = conf.get("StateSaveLocation")
    if any(place == root or place.startswith(f"{root}/") for root in MEMORY):
        yield Found(
            "state-is-lost",
            conf.place("StateSaveLocation"),
            {"name": "StateSaveLocation", "value": place},
            "StateSaveLocation=/var/lib/slurm/slurmctld",
        )
    accounts = conf.get("AccountingStorageType", "accounting_storage/none").lower()
    if accounts.endswith("none") and conf.get("JobCompType", "jobcomp/none").lower().endswith("none"):
        line = "JobCompType=jobcomp/filetxt / JobCompLoc=/var/log/slurm/jobcomp.log"
        yield Found("nobody-remembers", conf.place("JobCompType"), {"age": conf.get("MinJobAge", "300")}, line)


# --- the Slurm that runs


SAME = ("SelectType", "SelectTypeParameters", "ProctrackType", "TaskPlugin", "ReturnToService", "HealthCheckProgram", "HealthCheckInterval",
        "Prolog", "SchedulerParameters", "GresTypes", "StateSaveLocation", "SlurmdParameters", "DefMemPerCPU", "DefMemPerNode")  # fmt: skip


def _running(files: Files, here: Here) -> Iterator[Found]:
    if files.running is None:
        return
    for name in SAME:
        told, now = files.slurm.get(name).strip('"'), files.running.get(name)
        if told and now and _same(told) != _same(now):
            yield Found("running-differs", files.slurm.place(name), {"name": name, "file": told, "running": now}, "scontrol reconfigure")
    wanted = {name: len(types(line.pairs.get("gres", ""))) for name, line in named(files)}
    for node in files.nodes:
        if node.name in wanted and wanted[node.name] != len(node.gpus):
            values = {"node": node.name, "conf": wanted[node.name], "running": len(node.gpus)}
            yield Found("running-gpus-differ", "scontrol show node", values, "systemctl restart slurmctld slurmd")
        if node.closed:
            values = {"node": node.name, "state": node.state.lower(), "reason": node.reason or "-"}
            yield Found("node-closed", "scontrol show node", values, f"scontrol update NodeName={node.name} State=RESUME")


def _same(value: str) -> tuple[str, ...]:
    return tuple(sorted(word.strip().lower().removeprefix("task/") for word in value.split(",")))
