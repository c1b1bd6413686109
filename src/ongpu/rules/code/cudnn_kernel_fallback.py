"""A convolution or recurrent layer runs on a slow kernel."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.comparisons import Comparisons
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, traceback: Traceback | None, times: Comparisons | None) -> Iterator[Finding]:
    ratio = times.half_over_single() if times else None
    convolution = symptoms.cite("conv-words", most=2) if symptoms else ()
    if ratio is not None and ratio > 1.05 and convolution and times:
        lines = tuple(dict.fromkeys(t.ref for t in times.timings if t.precision))
        yield Finding(certainty=Certainty.LIKELY, variant="half", values={"ratio": f"{ratio:.1f}"}, refs=(*lines[-4:], *convolution))
        return
    if symptoms is None:
        return
    hits = symptoms.seen("cudnn-plan-failed")
    slow = symptoms.has("slow-words")
    choice = symptoms.cite("nondeterministic-cudnn") if slow else ()
    if not hits and not choice:
        return
    what = symptoms.value("what", "cudnn-plan-failed", "nondeterministic-cudnn") or "a slow kernel"
    lstm = "will not use cudnn" in what.lower()
    failed = bool(traceback and any(r.error for r in traceback.raised))
    fallback = "fallback" in what.lower()
    quiet = failed or (not slow and not lstm and not fallback and "slow_conv" not in what)
    yield Finding(
        certainty=Certainty.LIKELY if hits and (slow or lstm or fallback) else Certainty.POSSIBLE,
        severity=Severity.NOTE if quiet else None,
        variant="recurrent" if lstm else "choice" if not hits else "",
        values={"what": what}, refs=(*(hit.ref for hit in hits[:3]), *choice),
    )


RULE = Rule(
    slug="cudnn-kernel-fallback",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/backends.html", "https://www.tensorflow.org/api_docs/python/tf/keras/layers/LSTM",),
    en=Text(
        title="A convolution runs on a slow kernel ({what})",
        why="cuDNN's preferred plan was not usable for this shape, type or layout (or workspace), so a fallback ran: slow_conv, depthwise or im2col kernels can be many times slower. A single warning at the start is harmless; a slow run is not.",
        fix="Let cuDNN choose again: update PyTorch and cuDNN, torch.backends.cudnn.benchmark = True for fixed shapes, leave memory for workspaces, use channels_last and half precision with channel counts that are multiples of 8; TORCH_CUDNN_V8_API_DISABLED=1 on PyTorch 1.13 to 2.x to compare.",
    ),
    zh=Text(
        title="卷积走了慢速内核（{what}）",
        why="cuDNN 的首选方案不适用于该形状、类型或布局（或工作区不够），于是用了后备实现：slow_conv、depthwise、im2col 类内核可能慢很多倍。启动时只警告一次无妨，整个运行变慢就有问题。",
        fix="让 cuDNN 重新选择：更新 PyTorch 和 cuDNN，固定形状时设 torch.backends.cudnn.benchmark = True，给工作区留显存，使用 channels_last、半精度且通道数为 8 的倍数；PyTorch 1.13 到 2.x 可用 TORCH_CUDNN_V8_API_DISABLED=1 对比。",
    ),
    variants={
        "half": (
            Text(
                title="Half precision is slower than single ({ratio} times) for this convolution: cuDNN takes a slow kernel",
                why="Some convolutions (depthwise and separable, 3D, grouped, odd channel counts, float16 in older cuDNN releases) have no tensor-core kernel, so a generic or direct one runs; float16 then gains nothing or loses.",
                fix="Try torch.backends.cudnn.benchmark = True (fixed shapes), channels_last (NHWC) and channel counts that are multiples of 8; take a newer PyTorch and cuDNN; or keep those layers in float32 (fp32) under autocast.",
            ),
            Text(
                title="该卷积用半精度反而比单精度慢（{ratio} 倍）：cuDNN 选了慢内核",
                why="有些卷积（depthwise/可分离、3D、分组、奇特的通道数、旧版 cuDNN 的 float16）没有 Tensor Core 内核，只能走通用或直接实现；float16 没有收益甚至更慢。",
                fix="试 torch.backends.cudnn.benchmark = True（固定形状）、channels_last（NHWC）、通道数取 8 的倍数；升级 PyTorch 和 cuDNN；或在 autocast 中让这些层保持 float32（fp32）。",
            ),
        ),
        "recurrent": (
            Text(
                title="A recurrent layer does not use the cuDNN kernel ({what}); it runs a generic one, far slower",
                why="Keras takes cuDNN's LSTM or GRU only if activation is tanh, recurrent_activation sigmoid, recurrent_dropout 0, unroll False, use_bias True (and reset_after True for GRU), and masks are padded on the right.",
                fix="Go back to the default arguments (recurrent_dropout=0 above all) to get the cuDNN kernel.",
            ),
            Text(
                title="循环层没有使用 cuDNN 内核（{what}），改用通用实现，慢得多",
                why="Keras 仅在 activation 为 tanh、recurrent_activation 为 sigmoid、recurrent_dropout 为 0、unroll 为 False、use_bias 为 True（GRU 还要 reset_after=True）且右侧填充时，才用 cuDNN 的 LSTM/GRU。",
                fix="恢复默认参数（尤其是 recurrent_dropout=0），即可使用 cuDNN 内核。",
            ),
        ),
        "choice": (
            Text(
                title="The settings keep cuDNN from its fast kernels ({what})",
                why="Deterministic mode or a disabled cuDNN leaves only some algorithms; backward convolutions suffer most.",
                fix="Turn it off for speed (torch.backends.cudnn.deterministic = False, enabled = True, benchmark = True for fixed shapes); keep it only where runs must be repeatable.",
            ),
            Text(
                title="当前设置使 cuDNN 用不了快速内核（{what}）",
                why="确定性模式或禁用 cuDNN 只剩部分算法可用，反向卷积受影响最大。",
                fix="追求速度时关掉（torch.backends.cudnn.deterministic = False、enabled = True，固定形状时 benchmark = True）；只在需要可复现时保留。",
            ),
        ),
    },
)
