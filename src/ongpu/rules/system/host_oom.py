"""The program was killed, or could not go on, because the host's memory (not the GPU's) ran out."""

from collections.abc import Iterator

from ongpu.facts.container import Slurm
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

SURE = ("kernel-oom", "alloc-cpu")
KILLED = ("oomkilled", "shell-killed", "worker-killed")


def check(symptoms: Symptoms, slurm: Slurm | None) -> Iterator[Finding]:
    told = symptoms.cite("killed-told", most=2) if symptoms.has("ram-full-told", "ram-told", "without-error-told", "used-without-process") else ()
    if not symptoms.has(*SURE, *KILLED):
        if told:
            yield Finding(
                certainty=Certainty.LIKELY, values={"pid": "?", "name": "the program", "limit": None}, fixes=(Fix("look-at-host-memory"),),
                refs=(*told, *symptoms.cite("ram-full-told", "ram-told", "without-error-told", most=2)),
            )  # fmt: skip
        return
    pid = symptoms.value("pid", "kernel-oom-who") or symptoms.value("pid2", "kernel-oom-who")
    name = symptoms.value("name", "kernel-oom-who") or symptoms.value("name2", "kernel-oom-who")
    limit = symptoms.cite("slurm-memory")
    oomkilled = any("oomkilled" in hit.ref.quote.lower() for hit in symptoms.seen("oomkilled"))
    fenced = any(
        w in h.ref.quote.lower() for h in symptoms.seen("kernel-oom") for w in ("stepid", "cgroup", "slurmstepd")
    )
    whole = any(w in h.ref.quote.lower() for h in symptoms.seen("kernel-oom", "kernel-oom-who") for w in ("global_oom", "constraint_none"))
    fenced = fenced and not whole
    sure = bool(pid) or oomkilled or symptoms.has("kernel-oom")
    # signal 9 and exit code 137 have other senders too (a person, a time limit); a scheduler's memory limit beside them decides
    weak = not sure and not symptoms.has("alloc-cpu", "shell-killed") and not limit and not symptoms.has("ram-told")
    certainty = Certainty.CERTAIN if sure else Certainty.POSSIBLE if weak else Certainty.LIKELY
    yield Finding(
        subject=f"pid {pid}" if pid else "",
        certainty=certainty,
        variant="limit" if (limit or oomkilled or fenced) and not whole else "kernel" if pid else "allocation" if symptoms.has("alloc-cpu") else "",
        values={"pid": pid or "?", "name": name or "the program", "limit": limit[0].quote[:80] if limit else None},
        fixes=(Fix("look-at-host-memory"),),
        refs=(
            *symptoms.cite("kernel-oom-who", *SURE, *KILLED, most=2), *limit[:3], *symptoms.cite("ram-told", most=1),
            *(slurm.limits[:2] if slurm else ()),
        ),
    )  # fmt: skip


_FIX_EN = (
    "Look for the OOM killer with `sudo dmesg -T | grep -iE 'oom|killed process'` and watch free -h. Need less host memory (RAM): fewer "
    "DataLoader workers and a smaller prefetch, load the checkpoint with mmap=True or low_cpu_mem_usage=True (safetensors, "
    "device_map), smaller replay buffer or dataset in memory, load in shards; or add RAM or swap. Batch size and GPU memory do not "
    "matter here."
)
_FIX_ZH = (
    "用 `sudo dmesg -T | grep -iE 'oom|killed process'` 查 OOM killer，用 free -h 观察内存（RAM）。减少主机内存占用：减少 DataLoader worker "
    "与预取，加载检查点用 mmap=True 或 low_cpu_mem_usage=True（safetensors、device_map），缩小回放缓冲或内存中的数据集，分片加载；或增加内存、"
    "swap。批大小与显存在这里无关。"
)

RULE = Rule(
    slug="host-oom",
    layer=Layer.SYSTEM,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "oom-model-too-large",
        "zombie-holds-memory",
        "oom-batch-too-large",
        "nccl-timeout",
        "shm-too-small",
        "cuda-tensor-in-worker",
        "oom-other-process",
        "gpu-busy-other-process",
        "input-pipeline-bound",
        "k8s-gpu-request-unsatisfiable",
    ),
    settle=("sudo dmesg -T | grep -iE 'oom|out of memory'", "free -h"),
    see=(
        "https://docs.kernel.org/admin-guide/mm/concepts.html#oom-killer",
        "https://github.com/pytorch/pytorch/issues/8976",
    ),
    en=Text(
        title="The program was killed (signal 9): most likely the host ran out of memory (RAM), not the GPU",
        why='A process that ends with nothing but "Killed", exit code 137 or signal 9 (SIGKILL) was ended from outside; the usual sender is '
        "the kernel's OOM killer. GPU memory errors look different: they raise an exception with figures.",
        fix=_FIX_EN,
    ),
    zh=Text(
        title="程序被杀死（信号 9）：很可能是主机内存（RAM）用尽，而不是显存",
        why="进程只留下“Killed / 已杀死”、退出码 137 或信号 9（SIGKILL），说明是被外部终止的，通常是内核的 OOM killer。显存不足不是这样：它会抛出"
        "带数字的异常。",
        fix=_FIX_ZH,
    ),
    variants={
        "kernel": (
            Text(
                title="The kernel's OOM killer ended {name} (pid {pid}): the host's memory (RAM) ran out, not the GPU's",
                why="The kernel's record says so. The size behind anon-rss is what the process held in RAM.",
                fix=_FIX_EN,
            ),
            Text(
                title="内核 OOM killer 终止了 {name}（pid {pid}）：主机内存（RAM）用尽，而不是显存",
                why="内核记录就是这样写的，anon-rss 后面是该进程占用的内存。",
                fix=_FIX_ZH,
            ),
        ),
        "limit": (
            Text(
                title="The program was killed at its limit of host memory ({limit})",
                why="The batch system, pod or container has a limit of host memory (RAM), and the kernel ends the process that goes beyond it (OOMKilled, "
                "exit code 137, signal 9). The GPU's memory plays no part.",
                fix="Ask for more host memory: Slurm --mem=64G, or --mem-per-cpu with more --cpus-per-task; Kubernetes resources.limits.memory; docker "
                "--memory. Or need less: fewer DataLoader workers, checkpoints loaded with mmap=True or low_cpu_mem_usage=True, data in "
                "shards. `sacct -j JOB --format=MaxRSS,ReqMem` or kubectl describe pod shows the peak.",
            ),
            Text(
                title="程序超出主机内存上限（{limit}）被杀死",
                why="批处理系统、Pod 或容器设有主机内存（RAM）上限，进程超出时被内核终止（OOMKilled、退出码 137、信号 9），与显存无关。",
                fix="申请更多主机内存：Slurm 用 --mem=64G，或 --mem-per-cpu 配合更多 --cpus-per-task；Kubernetes 调高 resources.limits.memory；docker 用 "
                "--memory。或降低需求：减少 DataLoader worker，用 mmap=True 或 low_cpu_mem_usage=True 加载检查点，数据分片。"
                "`sacct -j JOB --format=MaxRSS,ReqMem` 或 kubectl describe pod 可看峰值。",
            ),
        ),
        "allocation": (
            Text(
                title="The host could not give the memory (RAM) that was asked for: this is not the GPU's memory",
                why='DefaultCPUAllocator, MemoryError, bad_alloc, "Cannot allocate memory" and the paging-file message all come from the host side.',
                fix=_FIX_EN + " On Windows enlarge the paging file (WinError 1455) and keep num_workers small.",
            ),
            Text(
                title="主机无法分配所需内存（RAM）：这不是显存",
                why="DefaultCPUAllocator、MemoryError、bad_alloc、“Cannot allocate memory” 以及页面文件提示都来自主机一侧。",
                fix=_FIX_ZH + "Windows 上请调大页面文件（WinError 1455），并减小 num_workers。",
            ),
        ),
    },
)
