"""cuDNN reports a failure; memory, an index or a mismatch is usually behind it."""

from collections.abc import Iterator

from ongpu.facts.framework import Packages
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms, packages: Packages | None) -> Iterator[Finding]:
    if not symptoms.has("cudnn-error") or symptoms.has("darknet-algo"):
        return
    status = (symptoms.value("status", "cudnn-error") or "").upper()
    soft = status in ("CUDNN_STATUS_NOT_SUPPORTED", "CUDNN_STATUS_BAD_PARAM", "CUDNN_STATUS_VERSION_MISMATCH", "CUDNN_STATUS_ARCH_MISMATCH")
    only_plan = "CUDNN_STATUS_EXECUTION_FAILED" not in status and "INTERNAL_ERROR" not in status and all("plan failed" in hit.ref.quote.lower() or "Conv_v8.cpp" in hit.ref.quote for hit in symptoms.seen("cudnn-error"))
    if only_plan or "VERSION_MISMATCH" in status or "SUBLIBRARY" in status:
        return
    tf = any(
        word in hit.ref.quote for hit in symptoms.seen("cudnn-error")
        for word in ("convolution algorithm", "cudnn handle", "DNN library", "No algorithm worked", "tensorflow")
    )
    mixed = packages is not None and len([name for name in packages.packages if name.startswith("nvidia-cudnn-cu")]) > 1
    variant = "tensorflow" if tf else "algorithm" if symptoms.has("no-cudnn-algorithm") else "soft" if soft else ""
    yield Finding(
            fixes=(Fix("launch-blocking"),),
        certainty=Certainty.POSSIBLE if soft or mixed else Certainty.LIKELY, variant=variant, values={"status": status or "a failure"},
        refs=symptoms.cite("cudnn-error", "assertion-line"),
    )


RULE = Rule(
    slug="cudnn-execution-failed",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    see=("https://docs.nvidia.com/deeplearning/cudnn/", "https://docs.pytorch.org/docs/stable/backends.html",),
    en=Text(
        title="cuDNN gave {status}: look at memory and at earlier errors before the library",
        why="cuDNN needs workspace memory and a living CUDA context. {status} is what is seen when the card is full, when an earlier kernel died (a bad index, an illegal access), when the build does not know the card, or when another cuDNN is loaded than the framework was built for.",
        fix="Watch nvidia-smi and lower the batch; run with CUDA_LAUNCH_BLOCKING=1 to see an earlier error; try torch.backends.cudnn.enabled = False: if it passes, compare torch.backends.cudnn.version() with what is installed and unset LD_LIBRARY_PATH.",
    ),
    zh=Text(
        title="cuDNN 返回 {status}：先查显存和更早的错误，再怀疑库本身",
        why="cuDNN 需要工作区显存和有效的 CUDA 上下文。显卡占满、更早的 kernel 已失败（索引越界、非法访问）、构建不支持该卡，或加载的 cuDNN 与框架所用版本不同，都会看到 {status}。",
        fix="看 nvidia-smi 并减小 batch；用 CUDA_LAUNCH_BLOCKING=1 找更早的错误；试 torch.backends.cudnn.enabled = False：若能通过，比对 torch.backends.cudnn.version() 与安装的版本，并 unset LD_LIBRARY_PATH。",
    ),
    variants={
        "algorithm": (
            Text(
                title="cuDNN finds no algorithm for a convolution: usually no memory is left for any workspace",
                why="PyTorch tries each algorithm and swallows the out-of-memory error of each; \"Unable to find a valid cuDNN algorithm\" or \"GET was unable to find an engine\" is what remains. Other processes on the card count as well. Rarer: a type or layout that cuDNN does not do, or another cuDNN than built for.",
                fix="Look at the card's memory (nvidia-smi), run fewer processes per GPU, lower the batch size; torch.backends.cudnn.benchmark = False needs less workspace. If memory is free: float32 instead of half, x.contiguous(), matching cuDNN.",
            ),
            Text(
                title="cuDNN 找不到卷积算法：通常是没有显存留给任何工作区",
                why="PyTorch 会逐个尝试算法并吞掉每次的显存不足错误，最后只剩“Unable to find a valid cuDNN algorithm”或“GET was unable to find an engine”。卡上的其他进程也算在内。少数情况：cuDNN 不支持该类型或布局，或 cuDNN 版本不符。",
                fix="看显存（nvidia-smi），减少每卡进程数，减小 batch；torch.backends.cudnn.benchmark = False 需要的工作区更少。若显存空闲：用 float32 代替半精度、x.contiguous()、换匹配的 cuDNN。",
            ),
        ),
        "tensorflow": (
            Text(
                title="TensorFlow could not start cuDNN ({status}): usually no memory is left on the card, or the cuDNN version does not fit",
                why="\"Failed to get convolution algorithm\" and \"Could not create cudnn handle\" come first of all from memory: TensorFlow or another process has reserved the card. Where a line \"Loaded runtime CuDNN library ... but source was compiled with\" stands above, it is the version.",
                fix="Let memory grow: tf.config.experimental.set_memory_growth(gpu, True) or TF_FORCE_GPU_ALLOW_GROWTH=true (TF1: config.gpu_options.allow_growth = True); end other processes; smaller batch. Else install the cuDNN that this TensorFlow was built with.",
            ),
            Text(
                title="TensorFlow 无法启动 cuDNN（{status}）：通常是显存没有余量，或 cuDNN 版本不符",
                why="“Failed to get convolution algorithm”和“Could not create cudnn handle”首先来自显存：TensorFlow 或其他进程已占用整卡。若上方有“Loaded runtime CuDNN library ... but source was compiled with”，则是版本问题。",
                fix="让显存按需增长：tf.config.experimental.set_memory_growth(gpu, True) 或 TF_FORCE_GPU_ALLOW_GROWTH=true（TF1：config.gpu_options.allow_growth = True）；结束其他进程；减小 batch。否则安装与该 TensorFlow 构建匹配的 cuDNN。",
            ),
        ),
        "soft": (
            Text(
                title="cuDNN refused a call ({status})",
                why="The parameters are not what cuDNN accepts: a non-contiguous input, a type or size that it does not support (very large tensors, half precision in an RNN), or a library of another version.",
                fix="Pass x.contiguous(), float32, a smaller batch; try torch.backends.cudnn.enabled = False; compare cuDNN versions.",
            ),
            Text(
                title="cuDNN 拒绝了一次调用（{status}）",
                why="参数不是 cuDNN 能接受的：输入不连续、类型或大小不支持（超大张量、RNN 中的半精度），或库版本不符。",
                fix="传 x.contiguous()、float32、更小的 batch；试 torch.backends.cudnn.enabled = False；比对 cuDNN 版本。",
            ),
        ),
    },
)
