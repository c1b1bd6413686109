"""The scheduler or launcher gave two jobs the same GPU, or a GPU that is in use."""

import re
from collections.abc import Iterator

from ongpu.facts.container import Slurm
from ongpu.facts.environment import Variables
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Process, Processes
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text


def check(symptoms: Symptoms, processes: Processes | None, variables: Variables | None, gpus: Gpus | None, slurm: Slurm | None) -> Iterator[Finding]:
    scheduler = symptoms.cite("scheduler-told", most=2)
    exported = symptoms.seen("same-device-exported")
    files = {hit.groups["file"] for hit in exported}
    values = {hit.groups["value"] for hit in exported}
    if len(files) > 1 and len(values) == 1:
        yield _finding(
            "exported",
            Certainty.LIKELY,
            (*(hit.ref for hit in exported), *scheduler),
            value=values.pop(),
            count=len(files),
        )
        return
    given = next((v for key in ("gpu", "gpu2") if (v := symptoms.value(key, "gpu-map-given"))), None)
    named = symptoms.value("value", "one-device-set")
    if given and named and named != given:
        lines = symptoms.cite("gpu-map-given", "one-device-set", most=2)
        yield _finding("other", Certainty.LIKELY, lines, given=given, named=named)
        return
    if variables and gpus and (pinned := _pinned_elsewhere(variables, gpus, symptoms)):
        yield pinned
        return
    if slurm and slurm.step_sees_more:
        lines = (*slurm.asked_lines[:2], *symptoms.cite("devices-not-constrained", "cgroup-conf-shown", most=3))
        yield _finding("all", Certainty.LIKELY, lines, count=f" ({slurm.step_sees_more[1]})")
        return
    told = symptoms.cite("same-gpu-told", "two-jobs-same-gpu", most=3)
    more = symptoms.cite("sees-all-gpus", most=2)
    if scheduler and more:
        count = symptoms.value("count", "sees-all-gpus") or symptoms.value("count2", "sees-all-gpus")
        yield _finding("all", Certainty.LIKELY, (*more, *scheduler), count=f" ({count})" if count else "")
        return
    if scheduler and symptoms.has("others-hold-memory") and symptoms.has("job-given-told"):
        yield _finding("", Certainty.LIKELY, (*symptoms.cite("others-hold-memory", "job-given-told", most=2), *scheduler))
        return
    if symptoms.has("devices-busy", "memory-not-enough") and scheduler and processes:
        busy = _busy(processes, variables, symptoms)
        if busy:
            refs = (
                *((busy.ref,) if busy.ref else ()),
                *symptoms.cite("devices-busy", "memory-not-enough", most=1),
                *scheduler,
            )
            yield _finding(
                "busy",
                Certainty.LIKELY,
                refs,
                gpu=busy.gpu,
                pid=busy.pid,
                name=busy.name or "?",
                job=symptoms.value("job", "batch-job-id") or "?",
            )
            return
    loose = symptoms.cite("devices-not-constrained")
    shared = _shared(processes) if processes else []
    if loose and (shared or told or scheduler):
        refs = (*loose, *(p.ref for p in shared if p.ref), *told, *scheduler)
        yield _finding("loose", Certainty.LIKELY if shared or told else Certainty.POSSIBLE, refs)
        return
    if told and scheduler:
        yield _finding("", Certainty.LIKELY, (*told, *scheduler))


def _pinned_elsewhere(variables: Variables, gpus: Gpus, symptoms: Symptoms) -> Finding | None:
    """CUDA_VISIBLE_DEVICES names a full card that the job was not given. (Behind device cgroups the numbers begin at 0 anew, and no such card is full.)"""
    given, named = variables.get("SLURM_JOB_GPUS"), variables.get("CUDA_VISIBLE_DEVICES")
    if not given or not named or not symptoms.has("run-ends", "memory-not-enough", "devices-busy"):
        return None
    mine, used = set(re.findall(r"\d+", given)), set(re.findall(r"\d+", named))
    full = [g for g in gpus.gpus if str(g.index) in used - mine and g.memory_used and g.memory_total and g.memory_used > 0.8 * g.memory_total]
    if not full:
        return None
    refs = (*variables.cite("SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"), *gpus.cite(*full)[:2], *symptoms.cite("memory-not-enough", "devices-busy", "run-ends", most=1))
    return _finding("other", Certainty.LIKELY, refs, given=given, named=named)


def _shared(processes: Processes) -> list[Process]:
    """Compute processes that sit together on one GPU."""
    compute = [p for p in processes.processes if p.kind != "G" and p.gpu is not None]
    return [p for p in compute if sum(q.gpu == p.gpu for q in compute) > 1][:4]


def _busy(processes: Processes, variables: Variables | None, symptoms: Symptoms) -> Process | None:
    """The process that sits on the GPU that the job was given."""
    given = variables.get("CUDA_VISIBLE_DEVICES") if variables else None
    given = (
        given
        or (variables.get("SLURM_JOB_GPUS") if variables else None)
        or symptoms.value("given", "visible-devices-told")
    )
    wanted = {int(word) for word in re.findall(r"\d+", given)} if given else set()
    on = [p for p in processes.processes if p.kind != "G" and (p.gpu in wanted if wanted else False)]
    return on[0] if on else None


def _finding(variant: str, certainty: Certainty, refs: tuple[Ref, ...], **values: object) -> Finding:
    return Finding(certainty=certainty, variant=variant, values=values, fixes=(Fix("who-holds-gpu"),), refs=refs)


RULE = Rule(
    slug="scheduler-misallocation",
    layer=Layer.SYSTEM,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "slurm-no-gres",
        "gpu-busy-other-process",
        "zombie-holds-memory",
        "exclusive-process-mode",
        "cuda-visible-devices-hides",
        "oom-other-process",
        "oom-batch-too-large",
    ),
    settle=("scontrol show job -d $SLURM_JOB_ID", "nvidia-smi", "echo $CUDA_VISIBLE_DEVICES"),
    see=("https://slurm.schedmd.com/gres.html", "https://github.com/jade-hpc-gpu/jade-hpc-gpu.github.io/issues/59"),
    en=Text(
        title="Several jobs were given the same GPU",
        why="The scheduler counts GPUs but does not fence them off, or jobs ignore what they were given: without device cgroups, every process sees "
        "all GPUs and takes number 0.",
        fix="Give each job its own index and do not set CUDA_VISIBLE_DEVICES by hand inside a batch job. Administrators: ConstrainDevices=yes in "
        "cgroup.conf and a right gres.conf (Slurm), no oversubscription (OverSubscribe, shards, time slicing) unless meant; Ray: num_gpus per "
        "task. Look who is on the card with nvidia-smi.",
    ),
    zh=Text(
        title="多个任务被分到同一张 GPU",
        why="调度器只计数不隔离，或任务没有遵守分配：没有设备 cgroup 时，每个进程都能看到全部 GPU，并默认占用 0 号。",
        fix="让每个任务使用自己的编号，批处理任务里不要手动设置 CUDA_VISIBLE_DEVICES。管理员：Slurm 在 cgroup.conf 设 ConstrainDevices=yes 并写对 "
        "gres.conf，除非有意不要超分（OverSubscribe、shard、时间片）；Ray 为每个任务设 num_gpus。用 nvidia-smi 看卡上是谁。",
    ),
    variants={
        "other": (
            Text(
                title="The scheduler gave this task GPU {given}, but its script sets CUDA_VISIBLE_DEVICES={named}",
                why="The launcher (or a number written by hand) does not pass the scheduler's own assignment (gpu_map, SLURM_JOB_GPUS) on, so the task runs on a card that may belong to another one, or finds none.",
                fix="Set no CUDA_VISIBLE_DEVICES by hand in a job; update the launcher, and until then set CUDA_VISIBLE_DEVICES={given} from the assignment in the start script. Where a cgroup shows the "
                "task only its own card, number 0 is right: look at nvidia-smi -L inside the job.",
            ),
            Text(
                title="调度器分给该任务的是 GPU {given}，启动脚本却设置 CUDA_VISIBLE_DEVICES={named}",
                why="启动器（或手写的编号）没有把调度器的分配结果（gpu_map、SLURM_JOB_GPUS）传下去，任务跑到了可能属于别人的卡上，或找不到 GPU。",
                fix="任务里不要手动设置 CUDA_VISIBLE_DEVICES；升级启动器，在此之前在启动脚本里按分配结果设置 CUDA_VISIBLE_DEVICES={given}。如果 cgroup 只让任务看到自己的卡，则编号 0 是对的："
                "在任务内用 nvidia-smi -L 确认。",
            ),
        ),
        "all": (
            Text(
                title="The job sees all GPUs of the node{count}, though it was given fewer: nothing fences the devices",
                why="The scheduler counts the GPUs, but the job's cgroup or container lets it open all of them: no ConstrainDevices in cgroup.conf, a privileged "
                "container, or NVIDIA_VISIBLE_DEVICES=all in the image.",
                fix="Set ConstrainDevices=yes in cgroup.conf with a right gres.conf (AutoDetect=nvml), restart slurmd; run slurmd's container neither privileged nor with "
                "NVIDIA_VISIBLE_DEVICES=all. Until then keep to the CUDA_VISIBLE_DEVICES that the scheduler sets.",
            ),
            Text(
                title="任务看到了节点的全部 GPU{count}，而分到的更少：设备没有隔离",
                why="调度器只对 GPU 计数，任务的 cgroup 或容器却能打开所有设备：cgroup.conf 没有 ConstrainDevices，容器为 privileged，或镜像里 NVIDIA_VISIBLE_DEVICES=all。",
                fix="在 cgroup.conf 设 ConstrainDevices=yes，写对 gres.conf（AutoDetect=nvml），重启 slurmd；slurmd 的容器不要用 privileged，也不要设 "
                "NVIDIA_VISIBLE_DEVICES=all。在此之前遵守调度器设置的 CUDA_VISIBLE_DEVICES。",
            ),
        ),
        "loose": (
            Text(
                title="Jobs share a GPU although the scheduler gave them different ones: ConstrainDevices=no",
                why="Slurm counts the GPUs, but without ConstrainDevices each job sees all of them; a program that picks GPU 0 then lands on "
                "the same card as the others.",
                fix="Set ConstrainDevices=yes in cgroup.conf with a right gres.conf (AutoDetect=nvml) and restart slurmd; until then let programs "
                "keep to the CUDA_VISIBLE_DEVICES that Slurm sets.",
            ),
            Text(
                title="调度器分配了不同的 GPU，任务却共用一张：ConstrainDevices=no",
                why="Slurm 只对 GPU 计数；没有 ConstrainDevices 时，每个任务都能看到全部 GPU，默认选 0 号的程序就挤到同一张卡上。",
                fix="在 cgroup.conf 设 ConstrainDevices=yes，写对 gres.conf（AutoDetect=nvml），重启 slurmd；在此之前，程序应遵守 Slurm 设置的 "
                "CUDA_VISIBLE_DEVICES。",
            ),
        ),
        "exported": (
            Text(
                title="{count} tasks are all started with CUDA_VISIBLE_DEVICES={value}: they share one GPU",
                why="The launcher reserved different GPUs but exports the same fixed index to every task. Where the batch system does not mask the GPUs, index "
                "{value} is the same card for all.",
                fix="Do not export a fixed index: let the batch system set CUDA_VISIBLE_DEVICES, or give each task the index that was reserved for it; update "
                "the launcher.",
            ),
            Text(
                title="{count} 个任务都以 CUDA_VISIBLE_DEVICES={value} 启动：共用一张 GPU",
                why="启动器为各任务预留了不同的 GPU，却给每个任务导出同一个固定编号。批处理系统没有屏蔽 GPU 时，编号 {value} 对所有任务都是同一张卡。",
                fix="不要导出固定编号：让批处理系统设置 CUDA_VISIBLE_DEVICES，或给每个任务导出为它预留的编号；升级启动器。",
            ),
        ),
        "busy": (
            Text(
                title="The scheduler gave job {job} GPU {gpu}, where {name} (pid {pid}) still sits",
                why="A process that outlived its job, or ignores its allocation, holds the card; the scheduler believes that it is free. In exclusive mode the "
                "new job then gets error 46 (busy or unavailable).",
                fix="Ask the administrators to end pid {pid} on GPU {gpu} and to constrain devices with cgroups (ConstrainDevices=yes in cgroup.conf, an epilog "
                "that kills leftovers); submit again, or exclude the node (--exclude).",
            ),
            Text(
                title="调度器把 GPU {gpu} 分给了任务 {job}，而 {name}（pid {pid}）仍在上面",
                why="某个进程在任务结束后没有退出，或没有遵守分配，占着这张卡，而调度器以为它空闲。独占模式下新任务会得到错误 46（busy or unavailable）。",
                fix="请管理员结束 GPU {gpu} 上的 pid {pid}，并用 cgroup 限制设备（cgroup.conf 设 ConstrainDevices=yes，用 epilog 清理残留进程）；"
                "重新提交，或用 --exclude 避开该节点。",
            ),
        ),
    },
)
