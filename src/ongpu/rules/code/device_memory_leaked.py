"""Memory of the GPU that was never freed, as compute-sanitizer's leak check tells it."""

from collections.abc import Iterator

from ongpu.facts.profile import gib
from ongpu.facts.sanitizer import Sanitizer
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(sanitizer: Sanitizer) -> Iterator[Finding]:
    if sanitizer.leaked and sanitizer.leak_ref:
        yield Finding(
            certainty=Certainty.POSSIBLE, values={"size": gib(sanitizer.leaked), "number": sanitizer.leaks or "?"}, refs=(sanitizer.leak_ref,)
        )


RULE = Rule(
    slug="device-memory-leaked",
    layer=Layer.CODE,
    severity=Severity.NOTE,
    check=check,
    see=("https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html",),
    en=Text(
        title="{size} of GPU memory in {number} allocations were not freed before the program ended",
        why="The driver takes it back when the process ends. It matters only where a process runs on and allocates again and again. PyTorch, TensorFlow and JAX keep their pools to the end on purpose, so that they always show up here.",
        fix="In your own CUDA code, match each cudaMalloc with a cudaFree (and call cudaDeviceReset before the end, so that the check is exact). For a framework's pools: nothing to do.",
    ),
    zh=Text(
        title="程序结束前有 {number} 处共 {size} 显存未释放",
        why="进程结束时驱动会全部收回。只有长期运行、反复分配的进程才会受影响。PyTorch、TensorFlow、JAX 会有意保留内存池到最后，因此总会出现在这里。",
        fix="自己的 CUDA 代码里，每个 cudaMalloc 都要有对应的 cudaFree（结束前调用 cudaDeviceReset，检查才准确）。框架的内存池无需处理。",
    ),
)
