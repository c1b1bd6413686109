"""A kernel races, reads what nobody wrote, or breaks a barrier: its results are not defined, even where nothing crashes."""

from collections.abc import Iterator

from ongpu.facts.sanitizer import Fault, Sanitizer
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

KINDS = ("race", "uninitialized", "barrier", "streams")
MOST = 4  # kernels that are told of each kind


def check(sanitizer: Sanitizer) -> Iterator[Finding]:
    for kind in KINDS:
        kernels: dict[str | None, list[Fault]] = {}
        for fault in sanitizer.of(kind):
            kernels.setdefault(fault.function(), []).append(fault)
        for name, faults in list(kernels.items())[:MOST]:
            first = next((fault for fault in faults if not fault.warning), faults[0])
            theirs = first.of_library()
            yield Finding(
                certainty=Certainty.POSSIBLE if theirs or first.warning else Certainty.LIKELY if kind == "uninitialized" else Certainty.CERTAIN,
                severity=Severity.NOTE if first.warning else Severity.WARNING if theirs or kind == "uninitialized" else None,
                variant="" if kind == "race" else kind,
                subject=name or "",
                values={
                    "kernel": name or "?", "what": first.what, "place": first.place or "?", "host": first.host or "?",
                    "thread": first.thread or "?", "number": len(faults),
                },
                fixes=(Fix("compute-sanitizer"),) if kind != "streams" else (),
                refs=(*first.refs[:4], *((sanitizer.summary,) if sanitizer.summary else ())),
            )


RULE = Rule(
    slug="kernel-undefined-behaviour",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    see=("https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html", "https://docs.pytorch.org/docs/stable/cuda._sanitizer.html",),
    en=Text(
        title="Threads of the kernel {kernel} race for shared memory ({what}{place:, at *})",
        why="Two threads of a block touch the same shared memory, at least one writes, and no barrier stands between them. Which one comes first differs from run to run and from card to card, and so does the result; nothing crashes.",
        fix="Put __syncthreads() (or __syncwarp(), ctx.localBarrier(), tl.debug_barrier()) between the write and the read, or use atomics. Compiled with -lineinfo, racecheck names the lines. A hazard inside a library's kernel, or one that is only a warning, is often a false alarm: confirm that results differ between runs.",
    ),
    zh=Text(
        title="kernel {kernel} 的线程在争用共享内存（{what}{place:，位于 *}）",
        why="同一个 block 的两个线程访问同一处共享内存，至少一个在写，中间没有屏障。谁先谁后每次运行、每种显卡都可能不同，结果也随之不同；程序并不会崩溃。",
        fix="在写和读之间加 __syncthreads()（或 __syncwarp()、ctx.localBarrier()、tl.debug_barrier()），或使用原子操作。用 -lineinfo 编译后 racecheck 会给出行号。若发生在库的 kernel 里，或仅为 warning，常是误报：先确认多次运行结果是否不同。",
    ),
    variants={
        "streams": (
            Text(
                title="Two streams use one tensor without waiting for each other: {kernel}{place: at *} and before it {host} ({what})",
                why="Work on different streams runs at the same time, so one may read what the other has not written yet, or overwrite what it still reads. Results are wrong now and then, and nothing crashes. PyTorch orders work within a stream only.",
                fix="Before the later use: stream.wait_stream(torch.cuda.current_stream()) (or an event: record, wait_event); when coming back, torch.cuda.current_stream().wait_stream(stream). For a tensor that was made on another stream also x.record_stream(stream), so that its memory is not given away too early.",
            ),
            Text(
                title="两个流使用同一个张量却没有相互等待：{kernel}{place:（位于 *）}，之前是 {host}（{what}）",
                why="不同流上的工作会同时运行，一个可能读到另一个尚未写好的数据，或覆盖它还在读的数据。结果时对时错，程序不会崩溃。PyTorch 只保证同一个流内的顺序。",
                fix="在后一次使用之前：stream.wait_stream(torch.cuda.current_stream())（或用事件：record、wait_event）；回到原来的流时：torch.cuda.current_stream().wait_stream(stream)。在别的流上创建的张量还需 x.record_stream(stream)，避免显存被过早回收。",
            ),
        ),
        "uninitialized": (
            Text(
                title="The kernel {kernel} reads memory that nobody wrote ({what}{place:, at *})",
                why="Memory from cudaMalloc (torch.empty, an output buffer that is only partly filled) holds what was there before. Results then depend on chance. Padding that is read and thrown away is reported alike.",
                fix="Fill the buffer first (torch.zeros, cudaMemset), or keep the kernel within the part that is filled. With PyTorch run as PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool initcheck ..., since the caching allocator hides what is fresh; torch.utils.deterministic.fill_uninitialized_memory fills torch.empty with NaN.",
            ),
            Text(
                title="kernel {kernel} 读取了从未写入的内存（{what}{place:，位于 *}）",
                why="cudaMalloc 得到的内存（torch.empty、只写了一部分的输出缓冲区）里是之前残留的内容，结果取决于运气。读出后又丢弃的填充数据也会被报告。",
                fix="先填充缓冲区（torch.zeros、cudaMemset），或让 kernel 只读已写入的部分。PyTorch 程序请用 PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool initcheck ...，因为缓存分配器会掩盖新内存；torch.utils.deterministic.fill_uninitialized_memory 会把 torch.empty 填成 NaN。",
            ),
        ),
        "barrier": (
            Text(
                title="The kernel {kernel} uses a barrier in a way that is not defined: {what}{place:, at *}",
                why="Every thread that a barrier counts has to reach it: __syncthreads() in a branch that only some threads take, a mask that names threads which do not come, or a barrier that is reused too early can hang, or let threads run on before the data is there.",
                fix="Move the barrier out of the branch (no early return before it), give the mask of the threads that really arrive (__activemask() is not that), and wait for an mbarrier's phase before it is used again.",
            ),
            Text(
                title="kernel {kernel} 使用屏障的方式未定义：{what}{place:，位于 *}",
                why="屏障计入的每个线程都必须到达：只有部分线程进入的分支里的 __syncthreads()、掩码里包含不会到达的线程、过早复用的屏障，都可能挂起，或让线程在数据就绪前继续运行。",
                fix="把屏障移到分支之外（之前不要提前 return）；掩码只写真正会到达的线程（不能直接用 __activemask()）；mbarrier 复用前先等待其相位完成。",
            ),
        ),
    },
)
