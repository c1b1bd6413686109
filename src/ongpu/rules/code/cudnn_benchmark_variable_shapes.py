"""cuDNN searches for the best algorithm anew for each input shape."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback, TrainingLog
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms, traceback: Traceback | None, log: TrainingLog | None) -> Iterator[Finding]:
    on = [hit for hit in (*symptoms.seen("cudnn-benchmark"), *symptoms.seen("cudnn-find")) if hit.groups.get("set")]
    new = symptoms.cite("new-size-slow", most=2)
    failed = traceback is not None and any(r.error for r in traceback.raised)
    if not on:
        if new and not failed and symptoms.has("conv-words", "image-words") and not symptoms.has("dynamo-limit", "dynamo-recompile"):
            refs = (*new, *(s.ref for s in (log.speeds[:4] if log else ())))
            yield Finding(certainty=Certainty.LIKELY, variant="told", refs=refs)
        return
    vary = symptoms.cite("shapes-vary", "shape-range", "new-size-slow", most=2)
    shapes = {h.groups["shape"] for h in symptoms.seen("shape-tuple")}
    if len(shapes) > 1:
        vary = (*vary, *symptoms.cite("shape-tuple", most=3))
    again = len(symptoms.seen("cudnn-mxnet-autotune")) >= 3
    if not (vary or again) or failed:
        return
    yield Finding(
        certainty=Certainty.LIKELY,
        values={"set": on[0].groups["set"]}, refs=(*(hit.ref for hit in on[:2]), *vary),
    )


RULE = Rule(
    slug="cudnn-benchmark-variable-shapes",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/backends.html#torch.backends.cudnn.torch.backends.cudnn.benchmark", "https://github.com/pytorch/pytorch/issues/2759",),
    en=Text(
        title="cuDNN's benchmark mode is on ({set}) while the input size changes: the search runs again for every new shape",
        why="benchmark tries all algorithms the first time a shape is seen and remembers the result for that shape only. With sizes that vary, many steps are searches: slow, irregular, and with peaks of memory.",
        fix="Turn it off (torch.backends.cudnn.benchmark = False; MXNET_CUDNN_AUTOTUNE_DEFAULT=0; onnxruntime cudnn_conv_algo_search=HEURISTIC), or pad and bucket inputs to a few sizes.",
    ),
    variants={
        "told": (
            Text(
                title="Each new input size is slow the first time: cuDNN searches for an algorithm again (torch.backends.cudnn.benchmark)",
                why="With benchmark mode on (many scripts and libraries set it), every shape that was not seen before triggers a search over all convolution algorithms; repeated sizes are fast. Compilers (torch.compile, TensorRT, XLA) behave alike.",
                fix="torch.backends.cudnn.benchmark = False (MXNET_CUDNN_AUTOTUNE_DEFAULT=0, TF_CUDNN_USE_AUTOTUNE=0, onnxruntime cudnn_conv_algo_search=HEURISTIC), or resize, pad or bucket the inputs to a few sizes and warm these up.",
            ),
            Text(
                title="每种新的输入尺寸第一次都很慢：cuDNN 在重新搜索算法（torch.backends.cudnn.benchmark）",
                why="开启 benchmark 模式时（许多脚本和库会设置），每个没见过的形状都会触发对所有卷积算法的搜索；重复的尺寸则很快。编译器（torch.compile、TensorRT、XLA）也有类似表现。",
                fix="torch.backends.cudnn.benchmark = False（MXNET_CUDNN_AUTOTUNE_DEFAULT=0、TF_CUDNN_USE_AUTOTUNE=0、onnxruntime cudnn_conv_algo_search=HEURISTIC），或把输入缩放、填充、分桶成少数几种尺寸并预热。",
            ),
        ),
    },
    zh=Text(
        title="cuDNN benchmark 模式已开启（{set}），而输入尺寸在变化：每个新形状都要重新搜索算法",
        why="benchmark 在第一次遇到某个形状时试遍所有算法，结果只对该形状有效。尺寸不断变化时，许多步都在搜索：慢、时快时慢，显存还有尖峰。",
        fix="关掉它（torch.backends.cudnn.benchmark = False；MXNET_CUDNN_AUTOTUNE_DEFAULT=0；onnxruntime 设 cudnn_conv_algo_search=HEURISTIC），或把输入填充/分桶到少数几种尺寸。",
    ),
)
