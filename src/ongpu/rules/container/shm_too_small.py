"""/dev/shm is too small for the loader's workers, NCCL or Ray."""


from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.container import Container, Kubernetes
from ongpu.facts.environment import Machine
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

MIB = 1 << 20
DEFAULT = 64 * MIB  # of docker, podman and Kubernetes


def _said(symptoms: Symptoms, traceback: Traceback | None) -> tuple[tuple[Ref, ...], bool]:
    """(lines, whether they name shared memory for sure)."""
    words = ("shm", "shared memory", "/torch_", "posix_fallocate", "shared_memory", "psm_", "unable to mmap", "plasma")
    worker = [h.ref for h in symptoms.seen("shm-bus-error") if any(w in h.ref.quote.lower() for w in ("dataloader", "worker", "shared memory", "shm"))]
    space = [h.ref for h in symptoms.seen("shm-no-space") if any(w in h.ref.quote.lower() for w in words)]
    nccl = list(symptoms.cite("shm-nccl"))
    ray = [h.ref for h in symptoms.seen("shm-ray") if "has only" in h.ref.quote or "instead of /dev/shm" in h.ref.quote]
    heap = list(symptoms.cite("no-space-28")) if symptoms.has("shm-python-heap") and symptoms.has("no-space-28") else []
    if traceback and not heap and symptoms.has("no-space-28"):
        frame = any(r.through("multiprocessing/heap.py", "multiprocessing/shared_memory.py", "reductions.py", "storage._share", "_new_shared") for r in traceback.raised)
        heap = list(symptoms.cite("no-space-28")) if frame else []
    sure = [*space, *nccl, *ray, *heap]
    return tuple(dict.fromkeys([*sure, *worker])), bool(sure or worker)


def check(
    symptoms: Symptoms | None, container: Container | None, kubernetes: Kubernetes | None, traceback: Traceback | None, machine: Machine | None,
) -> Iterator[Finding]:
    if symptoms is None and container is None:
        return
    if machine and machine.system == "windows":
        return
    said, sure = _said(symptoms, traceback) if symptoms else ((), False)
    bus = symptoms.cite("shm-bus-error") if symptoms else ()
    size = container.shm_bytes if container else None
    used = container.shm_used if container else None
    if symptoms and symptoms.has("shm-too-many-files") and not size and not symptoms.has("shm-bus-error"):
        return
    if symptoms and symptoms.has("shm-denied") and not symptoms.has("no-space-28", "shm-bus-error", "shm-ray"):
        return
    full = size is not None and used is not None and used >= 0.95 * size
    small = size is not None and size <= 2 * DEFAULT
    roomy = size is not None and size >= 4 << 30 and not full
    boxed = bool(container and (container.inside or container.runs or container.image)) or kubernetes is not None or bool(symptoms and symptoms.has("container-told"))
    values = {"size": f"{size // MIB} MiB" if size is not None else "?"}
    lines = container.shm_lines if container else ()
    variant = "kubernetes" if kubernetes is not None and kubernetes.pods else "host" if size is not None and size > 2 * DEFAULT and not boxed else ""
    fixes = (Fix("remount-shm") if variant == "host" else Fix("bigger-shm"),) if variant != "kubernetes" else ()
    if said and roomy and not any("No space" in ref.quote or "(28)" in ref.quote for ref in said):
        yield Finding(certainty=Certainty.POSSIBLE, variant="host", values=values, fixes=(Fix("remount-shm"),), refs=(*said, *lines))
    elif said and sure:
        yield Finding(certainty=Certainty.CERTAIN if small or full else Certainty.LIKELY, variant=variant, values=values, fixes=fixes, refs=(*said, *lines))
    elif bus and (small or boxed):
        yield Finding(certainty=Certainty.LIKELY, variant=variant, values=values, fixes=fixes, refs=(*bus, *lines))
    elif full and symptoms and symptoms.has("no-space-28"):
        yield Finding(certainty=Certainty.LIKELY, variant=variant, values=values, fixes=fixes, refs=(*symptoms.cite("no-space-28"), *lines))
    elif bus and symptoms and not roomy:
        yield Finding(certainty=Certainty.POSSIBLE, variant=variant, values=values, fixes=fixes, refs=(*bus, *lines))
    elif small and container and container.inside:  # nothing has failed yet
        yield Finding(severity=Severity.NOTE, certainty=Certainty.LIKELY, variant=variant, values=values, fixes=fixes, refs=(*lines, *container.about("shm")[:2]))


RULE = Rule(
    slug="shm-too-small",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=("nccl-timeout", "cuda-tensor-in-worker", "single-process-dataloader", "nccl-p2p-broken", "nccl-network-interface"),
    settle=("df -h /dev/shm",),
    see=(
        "https://github.com/pytorch/pytorch#docker-image",
        "https://docs.docker.com/reference/cli/docker/container/run/#shm-size",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#shared-memory",
    ),
    en=Text(
        title="/dev/shm is too small{size:: *|}",
        why="DataLoader workers, NCCL and Ray pass data through shared memory in /dev/shm. Docker gives a container 64 MB by default; a write beyond its end kills the process with a bus error or fails with \"No space left on device\", though disks and RAM have room.",
        fix="Start the container with --shm-size=8g (compose: shm_size: 8gb) or with --ipc=host; outside containers: mount -o remount,size=8G /dev/shm. Until then num_workers=0 or torch.multiprocessing.set_sharing_strategy(\"file_system\") helps the loader, NCCL_SHM_DISABLE=1 NCCL.",
    ),
    zh=Text(
        title="/dev/shm 太小{size:：*|}",
        why="DataLoader 的 worker、NCCL 和 Ray 通过 /dev/shm 中的共享内存传递数据。Docker 默认只给容器 64 MB；写出界时进程会因 Bus error 被杀，或报 “No space left on device”，尽管磁盘和内存都有空间。",
        fix="用 --shm-size=8g（compose：shm_size: 8gb）或 --ipc=host 启动容器；不在容器中时执行 mount -o remount,size=8G /dev/shm。在此之前，数据加载可用 num_workers=0 或 torch.multiprocessing.set_sharing_strategy(\"file_system\")，NCCL 可设 NCCL_SHM_DISABLE=1。",
    ),
    variants={
        "kubernetes": (
            Text(
                title="/dev/shm of the pod is too small{size:: *|}",
                why="Containers of a pod get 64 MB of /dev/shm, whatever their memory limit; loader workers and NCCL need more.",
                fix="Mount an emptyDir with medium: Memory (sizeLimit: 8Gi) on /dev/shm in the pod; it counts as the pod's memory. In docker the counterpart is --shm-size=8g or --ipc=host.",
            ),
            Text(
                title="Pod 的 /dev/shm 太小{size:：*|}",
                why="无论内存限制多大，Pod 的容器默认只有 64 MB 的 /dev/shm；数据加载 worker 和 NCCL 需要更多。",
                fix="在 Pod 中把 medium: Memory（sizeLimit: 8Gi）的 emptyDir 挂载到 /dev/shm，它计入 Pod 内存。docker 中对应 --shm-size=8g 或 --ipc=host。",
            ),
        ),
        "host": (
            Text(
                title="/dev/shm{size: (*)|} was used up by shared memory of workers or NCCL",
                why="On a host /dev/shm is half of the RAM by default. Files that dead processes left behind, or many workers with large batches, fill it.",
                fix="df -h /dev/shm; delete leftovers (/dev/shm/torch_*, nccl-*, psm_*) of processes that no longer run, lower num_workers or prefetch_factor, or sudo mount -o remount,size=32G /dev/shm. In a container: --shm-size or --ipc=host.",
            ),
            Text(
                title="/dev/shm{size:（*）|}被 worker 或 NCCL 的共享内存用尽",
                why="宿主机上 /dev/shm 默认是内存的一半。已退出的进程遗留的文件，或大量 worker 加大批次，会把它占满。",
                fix="df -h /dev/shm 查看；删除已不在运行的进程遗留的文件（/dev/shm/torch_*、nccl-*、psm_*），减小 num_workers 或 prefetch_factor，或 sudo mount -o remount,size=32G /dev/shm。容器中用 --shm-size 或 --ipc=host。",
            ),
        ),
    },
)
