"""The double check: the driver shows GPUs, and PyTorch cannot compute on them or sees fewer; nothing more precise is known."""

from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.framework import Torch
from ongpu.facts.hardware import Gpus
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(torch: Torch, gpus: Gpus, variables: Variables | None) -> Iterator[Finding]:
    usable = [gpu for gpu in gpus.gpus if not gpu.error]
    if not usable or (torch.computed is None and torch.probe_error is None):  # only what our own probe tried
        return
    lines = (*torch.about("available", "device_count", "probe_error"), *gpus.cite(*usable[:2]))
    values = {
        "count": len(usable),
        "seen": torch.device_count or 0,
        "error": torch.probe_error or "torch.cuda.is_available() is False",
    }
    if torch.probed:
        index, error = torch.probed[0]
        yield Finding(
            subject=f"cuda:{index}", variant="device", values={**values, "index": index, "error": error},
            fixes=(Fix("show-arch-list"), Fix("show-library-resolution")), refs=lines,
        )  # fmt: skip
    elif torch.computed is False:
        silent = torch.available is None
        yield Finding(
            certainty=Certainty.LIKELY if silent else Certainty.CERTAIN, variant="silent" if silent else "", values=values,
            fixes=(Fix("show-arch-list"), Fix("show-library-resolution")), refs=lines,
        )  # fmt: skip
    elif (
        (torch.device_count or 0) < len(usable) and not _chosen(torch, variables) and not any(gpu.mig for gpu in usable)
    ):
        yield Finding(
            severity=Severity.WARNING, variant="fewer", values=values, fixes=(Fix("show-arch-list"),), refs=lines
        )


def _chosen(torch: Torch, variables: Variables | None) -> bool:
    """Whether the user chose some of the devices: that is another rule's business."""
    names = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
    return torch.visible is not None or bool(
        variables and any(variables.get(name) not in (None, "all") for name in names)
    )


RULE = Rule(
    slug="cuda-unavailable",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    settle=('python -c "import torch; print(torch.zeros(1).cuda())"',),
    see=(
        "https://docs.pytorch.org/docs/stable/generated/torch.cuda.is_available.html",
        "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
    ),
    en=Text(
        title="The driver shows {count} GPU(s), but PyTorch cannot use them: {error}",
        why="The probe ran one small computation in this interpreter. The driver and its library answer, so the break lies between "
        "them and PyTorch: its CUDA libraries, its build, or the environment of this process.",
        fix="Run the commands below: the error that CUDA itself gives, and which libraries are loaded, tell them apart.",
    ),
    zh=Text(
        title="驱动能看到 {count} 块 GPU，但 PyTorch 无法使用：{error}",
        why="探针在该解释器里做了一次小计算。驱动和驱动库都有应答，问题出在它们与 PyTorch 之间：CUDA 库、PyTorch 的构建，或进程的环境变量。",
        fix="运行下面的命令：CUDA 自己报的错误，以及实际加载了哪些库，可以区分这几种情况。",
    ),
    variants={
        "device": (
            Text(
                title="PyTorch sees {seen} GPU(s), but a matrix product on cuda:{index} fails: {error}",
                why="The probe multiplied two small integer matrices on every GPU, whose result must be exact. This one refused or was wrong.",
                fix="Compare the card's compute capability with torch.cuda.get_arch_list(); look for Xid lines in the kernel log; a wrong "
                "result without an error is a matter for the card's vendor (run dcgmi diag -r 3).",
            ),
            Text(
                title="PyTorch 能看到 {seen} 块 GPU，但在 cuda:{index} 上做矩阵乘法失败：{error}",
                why="探针在每块 GPU 上做了两个小整数矩阵的乘法，结果必须精确。这块卡报错，或结果不对。",
                fix="对比显卡的计算能力与 torch.cuda.get_arch_list()；查看内核日志中的 Xid；若不报错而结果错误，请联系厂商（先跑 dcgmi diag -r 3）。",
            ),
        ),
        "silent": (
            Text(
                title="PyTorch gave no answer when it was asked to compute on {count} GPU(s): {error}",
                why="Importing it, or its first CUDA call, failed or did not return in time, while the driver answers.",
                fix='Run the same by hand to see where it stops: python -X faulthandler -c "import torch; print(torch.zeros(1).cuda())".',
            ),
            Text(
                title="让 PyTorch 在 {count} 块 GPU 上计算，没有得到回答：{error}",
                why="驱动有应答，但导入 PyTorch 或它的第一次 CUDA 调用失败，或迟迟不返回。",
                fix='手动运行同样的语句，看停在哪里：python -X faulthandler -c "import torch; print(torch.zeros(1).cuda())"。',
            ),
        ),
        "fewer": (
            Text(
                title="The driver shows {count} GPUs, PyTorch sees {seen}, and no variable says so",
                why="CUDA leaves out a card that it cannot start: one that was lost, is in prohibited compute mode, or hangs.",
                fix="Compare nvidia-smi -L with torch.cuda.device_count(); look in the kernel log for the missing card.",
            ),
            Text(
                title="驱动能看到 {count} 块 GPU，PyTorch 只看到 {seen} 块，而环境变量并未限制",
                why="CUDA 会跳过无法启动的卡：掉卡的、计算模式为 Prohibited 的，或卡死的。",
                fix="对比 nvidia-smi -L 与 torch.cuda.device_count()，并在内核日志里查找缺少的那块卡。",
            ),
        ),
    },
)
