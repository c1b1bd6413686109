"""The program may not write to /dev/shm."""


from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

WORDS = ("/dev/shm", "/torch_", "shared memory", "semlock", "shm_open", "nccl-shm", "psm_", "/dev/shm/sem.")
REFUSED = ("permission denied", "(13)", "errno 13", "operation not permitted", "read-only file system", "errno 30", "function not implemented", "errno 38")


def check(symptoms: Symptoms | None, traceback: Traceback | None) -> Iterator[Finding]:
    if symptoms is None:
        return
    lines = [
        h.ref for h in symptoms.seen("shm-denied")
        if any(w in h.ref.quote.lower() for w in WORDS) and any(w in h.ref.quote.lower() for w in REFUSED)
    ]
    semaphore = any(r.through("SemLock", "multiprocessing/synchronize") for r in traceback.raised) if traceback else symptoms.has("semlock-frame")
    errno = [h.ref for h in symptoms.seen("errno-13") if any(w in h.ref.quote.lower() for w in REFUSED)]
    absent = any("not implemented" in ref.quote or "Errno 38" in ref.quote for ref in (*lines, *errno))
    mode = symptoms.cite("shm-mode")
    fixes = (Fix("shm-mode"),)
    if lines:
        yield Finding(certainty=Certainty.CERTAIN, variant="absent" if absent else "", fixes=fixes, refs=(*lines, *mode))
    elif semaphore and errno:
        yield Finding(certainty=Certainty.CERTAIN if mode else Certainty.LIKELY, variant="absent" if absent else "", fixes=fixes, refs=(*errno, *symptoms.cite("semlock-frame"), *mode))
    elif mode and errno and any("t" not in h.groups.get("mode", "t").lower() for h in symptoms.seen("shm-mode")):
        yield Finding(certainty=Certainty.LIKELY, fixes=fixes, refs=(*errno, *mode))


RULE = Rule(
    slug="shm-permission-denied",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=("shm-too-small", "not-gpu-related", "nccl-timeout", "device-permission-denied"),
    settle=("ls -ld /dev/shm", "mount | grep /dev/shm", "id"),
    see=("https://github.com/ansible/ansible/issues/15281", "https://man7.org/linux/man-pages/man7/shm_overview.7.html"),
    en=Text(
        title="/dev/shm may not be written by this user",
        why="Semaphores and shared tensors of multiprocessing, loader workers and NCCL are files in /dev/shm. It must be a tmpfs with mode 1777 (drwxrwxrwt); a wrong mode, a read-only mount or files of another user there refuse them. This is not about the GPU, but stops training before it starts.",
        fix="sudo chmod 1777 /dev/shm (ls -ld must show drwxrwxrwt); delete leftovers of other users there; in a container mount a tmpfs or use --ipc=host or --shm-size; as a stop-gap num_workers=0.",
    ),
    zh=Text(
        title="当前用户不能写 /dev/shm",
        why="multiprocessing、数据加载 worker 和 NCCL 的信号量与共享张量都是 /dev/shm 中的文件。它应是权限 1777（drwxrwxrwt）的 tmpfs；权限错误、只读挂载或其他用户遗留的文件都会导致拒绝访问。这与 GPU 无关，但训练还没开始就会失败。",
        fix="sudo chmod 1777 /dev/shm（ls -ld 应显示 drwxrwxrwt）；删除其他用户遗留的文件；容器中挂载 tmpfs，或使用 --ipc=host、--shm-size；临时办法是 num_workers=0。",
    ),
    variants={
        "absent": (
            Text(
                title="/dev/shm is not there (or not a tmpfs): semaphores cannot be made",
                why="\"Function not implemented\" from SemLock means that the system has no usable /dev/shm, as in AWS Lambda, some sandboxes and chroots.",
                fix="Mount it (sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm), start the container with --shm-size, or do without processes: num_workers=0.",
            ),
            Text(
                title="没有 /dev/shm（或不是 tmpfs）：无法创建信号量",
                why="SemLock 报 “Function not implemented” 表示系统没有可用的 /dev/shm，例如 AWS Lambda、某些沙箱和 chroot。",
                fix="挂载它（sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm），用 --shm-size 启动容器，或不使用多进程：num_workers=0。",
            ),
        ),
    },
)
