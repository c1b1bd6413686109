"""A configuration of Slurm for one shared machine with GPUs, from what it really has. Pure."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from ongpu.queue.engines.slurm.setup.checks import SCHEDULER
from ongpu.queue.engines.slurm.setup.devices import gres_word, minor, roomy
from ongpu.queue.engines.slurm.setup.here import Gpu, Here

HOOKS = Path(__file__).parents[3] / "hooks"
FOLDER = "/etc/slurm"
TASK_PROLOG = """#!/bin/sh
# /etc/slurm/ongpu-taskprolog.sh: Slurm's TaskProlog. What it prints as "export NAME=value" is set for the task.
# Slurm, nvidia-smi and ongpu count GPUs by their place on the bus; CUDA counts the fastest first, unless it is told otherwise.
echo export CUDA_DEVICE_ORDER=PCI_BUS_ID
"""


def files(here: Here, folder: str = FOLDER) -> dict[str, str]:
    """Each file's name -> its text, as it is to lie in `folder`."""
    return {
        "slurm.conf": slurm_conf(here, folder),
        "gres.conf": gres_conf(here),
        "cgroup.conf": cgroup_conf(here),
        "ongpu-healthcheck.sh": hook("slurm-healthcheck.sh", here.ongpu, folder),
        "ongpu-prolog.sh": hook("slurm-prolog.sh", here.ongpu, folder),
        "ongpu-taskprolog.sh": TASK_PROLOG,
    }


def executable(name: str) -> bool:
    """Whether it is a script."""
    return name.endswith(".sh")


def hook(name: str, ongpu: str, folder: str) -> str:
    """A script of `ongpu gate install slurm`, with the path of ongpu, and of what slurmd's environment lacks: the health check is run
    with SLURMD_NODENAME alone (seen on 22.05.8), so that scontrol finds neither itself nor a slurm.conf in another place."""
    own = [
        f"ONGPU={shlex.quote(ongpu)}",
        f"SLURM_CONF=${{SLURM_CONF:-{folder}/slurm.conf}}",
        "PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/opt/slurm/bin",
        "export SLURM_CONF PATH",
    ]
    return (HOOKS / name).read_text("utf-8").replace("ONGPU=${ONGPU:-ongpu}", "\n".join(own))


def given(here: Here) -> tuple[Gpu, ...]:
    """The GPUs that Slurm gives out: whole ones. Slices (MIG) need AutoDetect=nvml, and a Slurm that was built with it."""
    return tuple(gpu for gpu in here.gpus if not gpu.mig)


def slurm_conf(here: Here, folder: str = FOLDER) -> str:
    """slurm.conf for Slurm 21.08 and newer. Jobs that name no CPUs or memory get the share of their GPUs."""
    count, memory = len(given(here)), roomy(here.memory)
    per_cpu = max(1, memory // here.cpus)
    per_gpu = max(1, here.cpus // count) if count else 0
    about = ", ".join(f"{n} x {name}" for name, n in _counted(here).items()) or "no GPU"
    topology = f"Sockets={here.sockets} CoresPerSocket={here.cores} ThreadsPerCore={here.threads}"
    gres = f" Gres={gres_word(here)}" if count else ""
    share = f"DefCpuPerGPU={per_gpu}\n" if per_gpu else ""
    return f"""# {folder}/slurm.conf, written by `ongpu queue setup slurm --single-node`
# for {here.host}: {about}, {here.cpus} CPUs, {here.memory} MiB of memory.
ClusterName={_word(here.host)}
SlurmctldHost={here.host}(127.0.0.1)
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
MpiDefault=none

# Each job sees and reaches its own GPUs only (with cgroup.conf); what it leaves behind is ended with it.
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity

# GPUs, cores and memory are shared out. Without a default memory a job that names none would be given all of it: one job at a time.
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
DefMemPerCPU={per_cpu}
{share}JobCompType=jobcomp/filetxt
JobCompLoc=/var/log/slurm/jobcomp.log
JobAcctGatherType=jobacct_gather/cgroup
MinJobAge=3600

# An idle machine starts jobs at once. A job that the prolog refuses is queued again, and not held.
SchedulerType=sched/backfill
SchedulerParameters={SCHEDULER}
JobRequeue=1
ReturnToService=2
KillWait=30
PropagateResourceLimitsExcept=MEMLOCK,NOFILE

# ongpu looks after the GPUs: a sick one drains the node with its reason, and the node comes back when it is well.
HealthCheckProgram={folder}/ongpu-healthcheck.sh
HealthCheckInterval=60
HealthCheckNodeState=ANY
Prolog={folder}/ongpu-prolog.sh
PrologFlags=Alloc
TaskProlog={folder}/ongpu-taskprolog.sh

# Jobs that name no --time get seven days: with a time known, short ones fit into gaps.
# A part of the memory is left to the system: a new kernel that takes some MiB more would drain the node otherwise.
NodeName={here.host} NodeAddr=127.0.0.1 CPUs={here.cpus} {topology} RealMemory={memory}{gres} State=UNKNOWN
PartitionName=main Nodes={here.host} Default=YES DefaultTime=7-00:00:00 MaxTime=UNLIMITED State=UP
"""


def gres_conf(here: Here) -> str:
    """gres.conf: the device files in the order of the bus, so that Slurm's numbers are those of nvidia-smi and ongpu."""
    lines = [
        f"# GPUs of {here.host}, in the order of the bus. A GPU that is not named here is not fenced: any job could open it.",
        "# So a sick one is drained (ongpu-healthcheck.sh), never taken out of this file.",
        "AutoDetect=off",
    ]
    for gpu in here.gpus:
        line = f"NodeName={here.host} Name=gpu Type={gpu.type} File=/dev/nvidia{minor(gpu)}"
        if gpu.mig:
            lines.append("# partitioned (MIG): its slices need AutoDetect=nvml and a Slurm built with NVML")
            line = f"# {line}"
        lines.append(line)
    return "\n".join([*lines, ""])


def cgroup_conf(here: Here) -> str:
    """cgroup.conf: devices, cores and memory of each job fenced."""
    plugin = f"CgroupPlugin=cgroup/{here.cgroup}\n" if here.cgroup and (not here.version or here.version >= (22, 5)) else ""
    alone = ""
    if here.cgroup == "v2" and not here.systemd:
        alone = "# No systemd here, so slurmd arranges its cgroups itself.\nIgnoreSystemd=yes\n"
    return f"{plugin}{alone}ConstrainDevices=yes\nConstrainCores=yes\nConstrainRAMSpace=yes\nConstrainSwapSpace=no\n"


def _counted(here: Here) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for gpu in here.gpus:
        found[gpu.name] = found.get(gpu.name, 0) + 1
    return found


def _word(host: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "", host.lower())[:40] or "gpus"


def steps(here: Here, folder: str, written: str) -> list[str]:
    """The commands that put it into use, on Debian and Ubuntu; written: where the files lie, "" where they were only shown."""
    copy = written or "."
    scripts = " ".join(f"{copy}/{name}" for name in ("ongpu-healthcheck.sh", "ongpu-prolog.sh", "ongpu-taskprolog.sh"))
    return [
        "apt install slurmctld slurmd slurm-client munge",
        "install -d -o slurm -g slurm /var/lib/slurm/slurmctld /var/lib/slurm/slurmd /var/log/slurm",
        f"install -m 644 {copy}/slurm.conf {copy}/gres.conf {copy}/cgroup.conf {folder}/",
        f"install -m 755 {scripts} {folder}/",
        "systemctl enable --now nvidia-persistenced munge",
        "systemctl restart slurmctld slurmd",
        "ongpu queue setup slurm --check",
    ]
