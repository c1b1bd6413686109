"""A kernel touched memory that it may not touch (700), with no more precise cause."""

from collections.abc import Iterator

from ongpu.facts.code import Frame, Traceback
from ongpu.facts.environment import Variables
from ongpu.facts.hardware import Xids
from ongpu.facts.sanitizer import Fault, Sanitizer
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

MOST = 4  # kernels that are told


def check(
    symptoms: Symptoms | None, xids: Xids | None, sanitizer: Sanitizer | None, variables: Variables | None, traceback: Traceback | None,
) -> Iterator[Finding]:
    if sanitizer and sanitizer.of("access"):
        yield from _in_report(sanitizer)
    elif symptoms:
        yield from _in_error(symptoms, xids, _blocking_line(variables, traceback))


def _in_report(sanitizer: Sanitizer) -> Iterator[Finding]:
    """One finding for each kernel that the sanitizer caught."""
    kernels: dict[str | None, list[Fault]] = {}
    for fault in sanitizer.of("access"):
        kernels.setdefault(fault.function(), []).append(fault)
    for name, faults in list(kernels.items())[:MOST]:
        first = faults[0]
        beyond = first.beyond
        yield Finding(
            fixes=(Fix("compute-sanitizer"),),
            subject=name or "",
            certainty=Certainty.POSSIBLE if first.inside and not first.misaligned else Certainty.CERTAIN,
            severity=Severity.WARNING if first.inside and not first.misaligned else None,
            variant="inside" if first.inside and not first.misaligned else "misaligned" if first.misaligned else "sanitizer",
            values={
                "kernel": name or "?", "access": f"{first.space} {first.what}".strip(), "place": first.place or "?", "thread": first.thread or "?",
                "number": len(faults), "host": first.host or "?", "size": "?" if first.size is None else f"{first.size:,}",
                "after": f"{beyond:,}" if beyond is not None and beyond >= 0 else "?", "before": f"{-beyond:,}" if beyond is not None and beyond < 0 else "?",
            },
            refs=first.refs[:5],
        )


def _blocking_line(variables: Variables | None, traceback: Traceback | None) -> Frame | None:
    """The line that launched the kernel: with CUDA_LAUNCH_BLOCKING=1 the traceback does not come too late."""
    if variables is None or variables.get("CUDA_LAUNCH_BLOCKING") in (None, "", "0"):
        return None
    raised = traceback.said("illegal memory", "launch failure", "misaligned") if traceback else None
    return raised.own()[-1] if raised and raised.own() else None


def _in_error(symptoms: Symptoms, xids: Xids | None, line: Frame | None) -> Iterator[Finding]:
    if not symptoms.has("illegal-access", "launch-failure") or symptoms.has("device-assert", "assert-embedding"):
        return
    launch = not symptoms.has("illegal-access")
    hardware = bool(xids and xids.of(48, 61, 62, 63, 64, 74, 79, 94, 95, 119, 140, 154))
    second = symptoms.value("dev", "cuda-second-device")
    yield Finding(
            fixes=(Fix("launch-blocking"), Fix("compute-sanitizer"),),
        certainty=Certainty.POSSIBLE if hardware or launch else Certainty.LIKELY,
        variant="second" if second and not hardware else "launch" if launch else "blocking" if line and line.code and not hardware else "",
        values={"code": line.code if line else "?", "dev": second or "?", "index": second.partition(":")[2] if second else "?"},
        refs=(*symptoms.cite("illegal-access", "launch-failure", "cuda-second-device", most=2), *(xids.refs[:2] if xids else ()), *((line.ref,) if line else ())),
    )


RULE = Rule(
    slug="illegal-memory-access",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("cublas-init-failed", "cudnn-execution-failed",),
    see=("https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html", "https://docs.nvidia.com/deploy/xid-errors/", "https://github.com/pytorch/pytorch/issues/196209",),
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
        "sanitizer": (
            Text(
                title="The kernel {kernel} makes an invalid access ({access}{place:, at *}){after:, * bytes after|}{before:, * bytes before|}{size: the nearest allocation of * bytes|}",
                why="compute-sanitizer caught it in the act{thread:, by thread *|}: this is the guilty kernel, and what fails later is a consequence. A few bytes beyond the end is an index that is too large by one block or row; millions or gigabytes beyond (or before) is an index that overflowed int32, a wrong stride or pointer, or an uninitialized index.{host: It was launched from *.|}",
                fix="Bound the index in that kernel (if (i < n)), compute it in 64 bits, check shapes, strides and contiguity of what is handed to it. In a library's kernel, check the indices, lengths and sizes that you pass. Line numbers need -lineinfo. With PyTorch set PYTORCH_NO_CUDA_MEMORY_CACHING=1, or the caching allocator hides accesses that end in a neighbouring tensor.",
            ),
            Text(
                title="kernel {kernel} 有非法访问（{access}{place:，位于 *}）{after:，越过末尾 * 字节|}{before:，在起点之前 * 字节|}{size:，最近的分配大小为 * 字节|}",
                why="compute-sanitizer 当场捕获{thread:（线程 *）|}：这就是出错的 kernel，之后的报错都是连带结果。越界几字节到几 KB，多是下标大了一个块或一行；越界几 MB 到几 GB（或在起点之前），多是 int32 下标溢出、步长或指针有误，或下标未初始化。{host:由 * 启动。|}",
                fix="在该 kernel 里限制下标（if (i < n)），用 64 位计算下标，检查传入张量的形状、步长和连续性。若是库的 kernel，检查传入的下标、长度和大小。行号需要 -lineinfo。PyTorch 程序请设 PYTORCH_NO_CUDA_MEMORY_CACHING=1，否则缓存分配器会掩盖落在相邻张量里的访问。",
            ),
        ),
        "misaligned": (
            Text(
                title="The kernel {kernel} makes a misaligned access ({access}{place:, at *})",
                why="An access of 4, 8 or 16 bytes has to begin at a multiple of its size. Vectorised loads (float4, int4, half2) break on a tensor that begins at an odd offset: a slice, a view, or a row whose length is no multiple of the vector.{host: It was launched from *.|}",
                fix="Pass x.contiguous() (or a clone) instead of a slice, pad rows to the vector's size, or take the scalar path where the pointer is not aligned: reinterpret_cast<uintptr_t>(p) % 16.",
            ),
            Text(
                title="kernel {kernel} 有未对齐的访问（{access}{place:，位于 *}）",
                why="4、8、16 字节的访问必须从其大小的整数倍地址开始。向量化读写（float4、int4、half2）遇到起点偏移不整齐的张量就会出错：切片、视图，或行长不是向量整数倍。{host:由 * 启动。|}",
                fix="传入 x.contiguous()（或 clone），不要直接传切片；把每行补齐到向量大小；或在指针未对齐时走标量路径：reinterpret_cast<uintptr_t>(p) % 16。",
            ),
        ),
        "inside": (
            Text(
                title="The sanitizer calls an access of {kernel} out of bounds that lies inside an allocation ({access}{place:, at *})",
                why="Either the access begins inside and ends beyond{size: the allocation of * bytes|}, or it is a known false alarm: with expandable segments a tensor lies over several mapped pieces, and the tool knows only one of them.",
                fix="Run again with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False and PYTORCH_NO_CUDA_MEMORY_CACHING=1. If the report stays, check vectorised accesses at the end of the buffer.",
            ),
            Text(
                title="sanitizer 认为 {kernel} 的访问越界，但地址在某个分配之内（{access}{place:，位于 *}）",
                why="要么访问从内部开始、到末尾之外结束{size:（分配大小 * 字节）|}，要么是已知的误报：启用 expandable segments 时一个张量跨多段映射，而工具只认得其中一段。",
                fix="用 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False 和 PYTORCH_NO_CUDA_MEMORY_CACHING=1 再跑一次。若仍然报告，检查缓冲区末尾的向量化访问。",
            ),
        ),
        "blocking": (
            Text(
                title="A kernel that \"{code}\" launches accesses memory that is not its own (an illegal memory access)",
                why="With CUDA_LAUNCH_BLOCKING=1 every launch is waited for, so the line of the traceback is the guilty one (work of the autograd engine's own threads is reported at backward). Usual causes there: indices beyond a buffer, non-contiguous input to a custom kernel, a tensor of another GPU, int32 overflow beyond 2^31 elements.",
                fix="Check what that line gets: shapes, strides (x.is_contiguous()), devices, idx.min() and idx.max() against the sizes. compute-sanitizer python train.py names the kernel and how far beyond it reads. Take CUDA_LAUNCH_BLOCKING out again afterwards: it costs speed.",
            ),
            Text(
                title="“{code}” 启动的 kernel 访问了不属于它的内存（illegal memory access）",
                why="设了 CUDA_LAUNCH_BLOCKING=1 后每次启动都会等待完成，所以回溯里的这一行就是出错处（autograd 引擎自己的线程里的工作会报在 backward 上）。常见原因：下标越界、传给自定义 kernel 的输入不连续、张量在另一块 GPU 上、元素数超过 2^31 的 int32 溢出。",
                fix="检查这一行的输入：形状、步长（x.is_contiguous()）、设备，以及 idx.min()、idx.max() 与各维大小。用 compute-sanitizer python train.py 可得知 kernel 名和越界多少。排查完去掉 CUDA_LAUNCH_BLOCKING，它会拖慢速度。",
            ),
        ),
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
