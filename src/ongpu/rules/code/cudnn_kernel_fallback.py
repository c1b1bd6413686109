"""A convolution or recurrent layer runs on a slow kernel."""

from collections.abc import Iterator, Mapping

from ongpu.facts.code import Traceback
from ongpu.facts.comparisons import Comparisons
from ongpu.facts.program import Event, Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Const, Module, may_be_gpu
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, traceback: Traceback | None, times: Comparisons | None, program: Program | None) -> Iterator[Finding]:
    if program and traceback is None:
        slow = bool(symptoms and symptoms.has("slow-words", "conv-slow-told"))
        yield from (finding for script in program.scripts for finding in _in_source(script, slow))
    ratio = times.half_over_single() if times else None
    convolution = symptoms.cite("conv-words", most=2) if symptoms else ()
    convolution = convolution or tuple(e.ref() for s in (program.scripts if program else ()) for e in s.calls(*LAYERS))[:2]
    if ratio is not None and ratio > 1.05 and convolution and times:
        lines = tuple(dict.fromkeys(t.ref for t in times.timings if t.precision))
        yield Finding(certainty=Certainty.LIKELY, variant="half", values={"ratio": f"{ratio:.1f}"}, refs=(*lines[-4:], *convolution))
        return
    if symptoms is None:
        return
    profile = [h for h in symptoms.seen("slow-kernel-profile") if _share(h.groups) >= 20]
    if profile:
        kernel = profile[0].groups.get("kernel") or profile[0].groups.get("kernel2") or "?"
        yield Finding(
            certainty=Certainty.LIKELY, variant="profile", values={"kernel": kernel, "share": f"{_share(profile[0].groups):.0f}"},
            refs=tuple(h.ref for h in profile[:3]),
        )
        return
    told = symptoms.cite("conv-slow-told", most=3)
    if told and not (symptoms.has("slower-than-cpu", "cudnn-benchmark") or any("cpu" in h.ref.quote.lower() for h in symptoms.seen("gpu-slower-told"))) and not (traceback and any(r.error for r in traceback.raised)):
        yield Finding(certainty=Certainty.LIKELY, variant="told", values={"line": told[0].quote}, refs=told)
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


LAYERS = ("torch.nn.Conv1d", "torch.nn.Conv2d", "torch.nn.Conv3d", "torch.nn.ConvTranspose2d", "torch.nn.functional.conv2d", "keras.layers.Conv2D")
NETS = ("torchvision.models.", "timm.create_model", "segmentation_models_pytorch.")
NOT_CONVOLUTIONAL = ("vit", "swin", "deit", "beit", "mixer")


def _in_source(script: Script, slow: bool) -> Iterator[Finding]:
    """Settings that keep cuDNN from its fast kernels in a script that trains convolutions, recurrent layers of Keras, and the layout under autocast."""
    yield from _dilated(script)
    net = _convolutions(script)
    if net is None:
        yield from _recurrent(script)
        return
    sets = {e.name.removeprefix("torch.backends.cudnn."): e for e in script.of("setattr") if e.name.startswith("torch.backends.cudnn.") and e.certain}
    value = {name: e.value.value for name, e in sets.items() if isinstance(e.value, Const)}
    if value.get("enabled") is False:
        yield Finding(certainty=Certainty.LIKELY, variant="choice", values={"what": "torch.backends.cudnn.enabled = False"}, refs=(sets["enabled"].ref(), net.ref()))
    elif value.get("deterministic") is True and value.get("benchmark") is not True:
        yield Finding(
            certainty=Certainty.POSSIBLE, severity=None if slow else Severity.NOTE, variant="choice", values={"what": "torch.backends.cudnn.deterministic = True"},
            refs=(sets["deterministic"].ref(), *((sets["benchmark"].ref(),) if "benchmark" in sets else ())),
        )  # fmt: skip
    if net.at.autocast and not script.says("channels_last") and not script.managed:
        yield Finding(certainty=Certainty.POSSIBLE, severity=Severity.NOTE, variant="layout", values={"code": net.words(60)}, refs=(net.ref(),))


CLOCKS = ("time.time", "time.perf_counter", "time.monotonic", "torch.cuda.Event", "torch.utils.benchmark.Timer", "timeit.timeit", "timeit.default_timer")


def _dilated(script: Script) -> Iterator[Finding]:
    """A timed program that asks for deterministic kernels, of which cuDNN has but slow ones for dilated convolutions."""
    sets = next((e for e in script.of("setattr") if e.name == "torch.backends.cudnn.deterministic" and not (isinstance(e.value, Const) and not e.value.value)), None)
    wide = next((c for c in script.calls("torch.nn.Conv1d", "torch.nn.Conv2d", "torch.nn.Conv3d") if (d := c.arg(5, "dilation")) is not None and not (isinstance(d, Const) and d.value == 1)), None)
    if sets is not None and wide is not None and any(True for _ in script.calls(*CLOCKS)):
        yield Finding(certainty=Certainty.LIKELY, variant="dilated", values={"what": sets.file.quote(sets.stmt) if sets.stmt else "cudnn.deterministic", "code": wide.words(60)}, refs=(sets.ref(), wide.ref()))


def _convolutions(script: Script) -> Event | None:
    """The call of a convolutional network that a loop trains on CUDA."""
    for loop in script.loops:
        for call in loop.forwards or () if loop.trains else ():
            model = call.receiver.inner if isinstance(call.receiver, Module) else None
            if model is not None and model.weighs and may_be_gpu(model.where(call)) and _of_convolutions(script, model):
                return call
    return None


def _of_convolutions(script: Script, model: Module) -> bool:
    name = model.made.words().lower() if model.made else ""
    if model.name.startswith(NETS):
        return not any(word in name for word in NOT_CONVOLUTIONAL)
    parts = [e.value for e in script.calls("torch.nn.Conv2d", "torch.nn.Conv3d")]
    return any(isinstance(part, Module) and part.root is model.root for part in parts)


def _recurrent(script: Script) -> Iterator[Finding]:
    """Keras layers whose arguments rule cuDNN's kernel out."""
    for layer in script.calls("keras.layers.LSTM", "keras.layers.GRU"):
        if any(n in (layer.kw or {}) and isinstance(layer.says(n), str | bool | int | float) and layer.says(n) != fast for n, fast in _FAST.items()):
            yield Finding(certainty=Certainty.LIKELY, variant="recurrent", values={"what": layer.words(60)}, refs=(layer.ref(),))
            return


# What Keras asks for, as the docstrings of its LSTM and GRU say.
_FAST: dict[str, object] = {"activation": "tanh", "recurrent_activation": "sigmoid", "recurrent_dropout": 0, "unroll": False, "use_bias": True, "reset_after": True}


def _share(groups: Mapping[str, str]) -> float:
    """Percent of the time that a profile gives a kernel; 0 where it says nothing of use."""
    told = float((groups.get("share") or groups.get("share2") or "0").replace(",", "."))
    return told if told <= 100 else 0.0


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
        title="卷积走了慢速 kernel（{what}）",
        why="cuDNN 的首选方案不适用于该形状、类型或布局（或工作区不够），于是用了后备实现：slow_conv、depthwise、im2col 类 kernel 可能慢很多倍。启动时只警告一次无妨，整个运行变慢就有问题。",
        fix="让 cuDNN 重新选择：更新 PyTorch 和 cuDNN，固定形状时设 torch.backends.cudnn.benchmark = True，给工作区留显存，使用 channels_last、半精度且通道数为 8 的倍数；PyTorch 1.13 到 2.x 可用 TORCH_CUDNN_V8_API_DISABLED=1 对比。",
    ),
    variants={
        "dilated": (
            Text(
                title="{what}: deterministic kernels of dilated convolutions are many times slower ({code})",
                why="Asked to be deterministic, cuDNN may not take its fast algorithms; for a dilation above 1 little else is left, and PyTorch's own kernel or a slow one of cuDNN runs instead.",
                fix="Leave torch.backends.cudnn.deterministic off where speed matters (torch.backends.cudnn.benchmark = True for fixed shapes), or avoid dilation; newer releases of cuDNN have faster deterministic kernels: compare.",
            ),
            Text(
                title="{what}：空洞卷积的确定性 kernel 要慢很多倍（{code}）",
                why="要求确定性（deterministic）时，cuDNN 不能用它的快速算法；dilation 大于 1 时可选的所剩无几，只能用 PyTorch 自己的 kernel 或 cuDNN 的慢速 kernel。",
                fix="重视速度时不要打开 torch.backends.cudnn.deterministic（固定形状时设 torch.backends.cudnn.benchmark = True），或避免 dilation；较新的 cuDNN 有更快的确定性 kernel，请对比。",
            ),
        ),
        "layout": (
            Text(
                title="{code} runs convolutions under autocast in the NCHW layout",
                why="cuDNN's tensor-core kernels want channels last (NHWC); otherwise it converts before and after, or takes a slower kernel.",
                fix="model = model.to(memory_format=torch.channels_last) and images.to(device, memory_format=torch.channels_last); usually some 10 to 35 % faster. Measure.",
            ),
            Text(
                title="{code} 在 autocast 下以 NCHW 布局计算卷积",
                why="cuDNN 的 Tensor Core kernel 需要通道在后（NHWC）；否则要在前后转换，或选用较慢的 kernel。",
                fix="model = model.to(memory_format=torch.channels_last)，并且 images.to(device, memory_format=torch.channels_last)；通常快 10 % 到 35 %，请实测。",
            ),
        ),
        "profile": (
            Text(
                title="{share} % of the GPU's time goes into {kernel}: cuDNN's fast kernel was not chosen",
                why="{kernel} is a layout conversion or a fallback for this shape, type, group count or dilation. The convolution itself has a much faster kernel for other settings.",
                fix="Try torch.backends.cudnn.benchmark = True, model.to(memory_format=torch.channels_last), channel counts that are multiples of 8, bfloat16 or float32 for that layer, another PyTorch or cuDNN release; compare with torch.profiler.",
            ),
            Text(
                title="GPU 时间的 {share} % 花在 {kernel}：cuDNN 没有选到快的内核",
                why="{kernel} 是布局转换，或是针对该形状、类型、分组数、空洞率的退路。换个设置，卷积本身有快得多的内核。",
                fix="试 torch.backends.cudnn.benchmark = True、model.to(memory_format=torch.channels_last)、通道数取 8 的倍数、该层改用 bfloat16 或 float32、换 PyTorch 或 cuDNN 版本；用 torch.profiler 对比。",
            ),
        ),
        "told": (
            Text(
                title="A convolution is told to be slow with certain settings: {line}",
                why="cuDNN and PyTorch pick a kernel by shape, type, layout, groups and dilation. Depthwise, grouped, dilated and 3D convolutions, and half precision for some shapes, fall back to slow kernels in some releases.",
                fix="Try torch.backends.cudnn.benchmark = True, memory_format=torch.channels_last, channel counts that are multiples of 8, bfloat16 or float32 for that layer, or another PyTorch or cuDNN release; torch.profiler names the kernel.",
            ),
            Text(
                title="卷积在某些设置下很慢：{line}",
                why="cuDNN 和 PyTorch 按形状、类型、布局、分组和空洞选择内核。depthwise、分组、空洞、3D 卷积，以及某些形状的半精度，在部分版本中会退到慢内核。",
                fix="试 torch.backends.cudnn.benchmark = True、memory_format=torch.channels_last、通道数取 8 的倍数、该层改用 bfloat16 或 float32，或换 PyTorch / cuDNN 版本；torch.profiler 会给出内核名。",
            ),
        ),
        "half": (
            Text(
                title="Half precision is slower than single ({ratio} times) for this convolution: cuDNN takes a slow kernel",
                why="Some convolutions (depthwise and separable, 3D, grouped, odd channel counts, float16 in older cuDNN releases) have no tensor-core kernel, so a generic or direct one runs; float16 then gains nothing or loses.",
                fix="Try torch.backends.cudnn.benchmark = True (fixed shapes), channels_last (NHWC) and channel counts that are multiples of 8; take a newer PyTorch and cuDNN; or keep those layers in float32 (fp32) under autocast.",
            ),
            Text(
                title="该卷积用半精度反而比单精度慢（{ratio} 倍）：cuDNN 选了慢 kernel",
                why="有些卷积（depthwise/可分离、3D、分组、奇特的通道数、旧版 cuDNN 的 float16）没有 Tensor Core kernel，只能走通用或直接实现；float16 没有收益甚至更慢。",
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
                title="循环层没有使用 cuDNN kernel（{what}），改用通用实现，慢得多",
                why="Keras 仅在 activation 为 tanh、recurrent_activation 为 sigmoid、recurrent_dropout 为 0、unroll 为 False、use_bias 为 True（GRU 还要 reset_after=True）且右侧填充时，才用 cuDNN 的 LSTM/GRU。",
                fix="恢复默认参数（尤其是 recurrent_dropout=0），即可使用 cuDNN kernel。",
            ),
        ),
        "choice": (
            Text(
                title="The settings keep cuDNN from its fast kernels ({what})",
                why="Deterministic mode or a disabled cuDNN leaves only some algorithms; backward convolutions suffer most.",
                fix="Turn it off for speed (torch.backends.cudnn.deterministic = False, enabled = True, benchmark = True for fixed shapes); keep it only where runs must be repeatable.",
            ),
            Text(
                title="当前设置使 cuDNN 用不了快速 kernel（{what}）",
                why="确定性模式或禁用 cuDNN 只剩部分算法可用，反向卷积受影响最大。",
                fix="追求速度时关掉（torch.backends.cudnn.deterministic = False、enabled = True，固定形状时 benchmark = True）；只在需要可复现时保留。",
            ),
        ),
    },
)
