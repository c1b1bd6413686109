"""A kernel touched memory that it may not touch (700), with no more precise cause."""

from collections.abc import Iterator

from ongpu.facts.hardware import Xids
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms, xids: Xids | None) -> Iterator[Finding]:
    if not symptoms.has("illegal-access", "launch-failure") or symptoms.has("device-assert", "assert-embedding"):
        return
    launch = not symptoms.has("illegal-access")
    hardware = bool(xids and xids.of(48, 61, 62, 63, 64, 74, 79, 94, 95, 119, 140, 154))
    second = symptoms.value("dev", "cuda-second-device")
    yield Finding(
            fixes=(Fix("launch-blocking"), Fix("compute-sanitizer"),),
        certainty=Certainty.POSSIBLE if hardware or launch else Certainty.LIKELY,
        variant="second" if second and not hardware else "launch" if launch else "",
        values={"dev": second or "?", "index": second.partition(":")[2] if second else "?"},
        refs=(*symptoms.cite("illegal-access", "launch-failure", "cuda-second-device", most=2), *(xids.refs[:2] if xids else ())),
    )


RULE = Rule(
    slug="illegal-memory-access",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("cublas-init-failed", "cudnn-execution-failed",),
    see=("https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html", "https://docs.nvidia.com/deploy/xid-errors/",),
    en=Text(
        title="A kernel accessed memory that is not its own (an illegal memory access)",
        why="CUDA reports it at a later call, so the line of the traceback is rarely the guilty one, and the context is dead afterwards. Usual causes: a custom or third-party CUDA extension (indices beyond a buffer, non-contiguous input, int32 overflow beyond 2^31 elements), a tensor of another GPU than the current one, a bug of the framework's release, seldom memory errors of the card (Xid 48, 94, 95 in dmesg) or overclocking.",
        fix="Run with CUDA_LAUNCH_BLOCKING=1 and compute-sanitizer python train.py to find the kernel. Update or rebuild the extension for this PyTorch; call torch.cuda.set_device(n) when working on a card other than 0; pass contiguous tensors; check dmesg for Xid lines.",
    ),
    zh=Text(
        title="kernel 访问了不属于它的内存（illegal memory access）",
        why="CUDA 在后面的调用才报告，回溯里的那一行往往不是真正出错处，此后上下文也已失效。常见原因：自定义或第三方 CUDA 扩展（下标越界、输入不连续、元素数超过 2^31 的 int32 溢出）、张量不在当前 GPU、框架版本的缺陷；少数是显存错误（dmesg 中的 Xid 48、94、95）或超频。",
        fix="用 CUDA_LAUNCH_BLOCKING=1 和 compute-sanitizer python train.py 找到出错 kernel。为当前 PyTorch 更新或重新编译扩展；使用 0 号以外的卡时先 torch.cuda.set_device(n)；传入连续张量；查看 dmesg 中的 Xid 行。",
    ),
    variants={
        "second": (
            Text(
                title="A kernel was launched on the current device, GPU 0, for memory on {dev}: an illegal memory access",
                why="The program works on {dev}, but the current device is still 0. PyTorch's own operations switch by themselves; custom CUDA extensions (and Triton kernels, CuPy, bare streams) launch on the current device and touch memory of the other card.",
                fix="torch.cuda.set_device({index}) before anything else, or run with CUDA_VISIBLE_DEVICES={index} and plain \"cuda\" in the code; in the extension, a CUDAGuard (at::cuda::OptionalCUDAGuard).",
            ),
            Text(
                title="kernel 在当前设备 GPU 0 上启动，访问的却是 {dev} 的内存：非法内存访问",
                why="程序在 {dev} 上工作，但当前设备仍是 0。PyTorch 自带的运算会自动切换；自定义 CUDA 扩展（以及 Triton kernel、CuPy、裸流）在当前设备上启动，会碰到另一块卡的内存。",
                fix="最先调用 torch.cuda.set_device({index})，或用 CUDA_VISIBLE_DEVICES={index} 运行、代码里只写 \"cuda\"；在扩展中使用 CUDAGuard（at::cuda::OptionalCUDAGuard）。",
            ),
        ),
        "launch": (
            Text(
                title="A kernel died (unspecified launch failure or misaligned address)",
                why="Most often a bad pointer or index in a kernel, as with an illegal memory access; also a display watchdog, unstable power or clocks, or a card at fault. dmesg (Xid) tells them apart: Xid 13 or 31 is the program, 48, 79, 94 and 95 the card.",
                fix="Run with CUDA_LAUNCH_BLOCKING=1 and compute-sanitizer; look for Xid lines (sudo dmesg | grep -i xid); take back overclocking.",
            ),
            Text(
                title="kernel 异常终止（unspecified launch failure 或 misaligned address）",
                why="多数情况是 kernel 里的指针或下标有误，与非法内存访问同类；也可能是显示看门狗、供电或频率不稳、显卡故障。用 dmesg（Xid）区分：Xid 13、31 是程序问题，48、79、94、95 是显卡问题。",
                fix="用 CUDA_LAUNCH_BLOCKING=1 和 compute-sanitizer 运行；查 Xid 行（sudo dmesg | grep -i xid）；取消超频。",
            ),
        ),
    },
)
