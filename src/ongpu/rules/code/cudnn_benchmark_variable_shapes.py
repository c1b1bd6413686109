"""cuDNN searches for the best algorithm anew for each input shape."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms, traceback: Traceback | None) -> Iterator[Finding]:
    on = [hit for hit in symptoms.seen("cudnn-benchmark") if hit.groups.get("set")]
    if not on:
        return
    vary = symptoms.cite("shapes-vary", "shape-range", most=2)
    shapes = {h.groups["shape"] for h in symptoms.seen("shape-tuple")}
    if len(shapes) > 1:
        vary = (*vary, *symptoms.cite("shape-tuple", most=3))
    again = len(symptoms.seen("cudnn-mxnet-autotune")) >= 3
    if not (vary or again) or (traceback and any(r.error for r in traceback.raised)):
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
    zh=Text(
        title="cuDNN benchmark 模式已开启（{set}），而输入尺寸在变化：每个新形状都要重新搜索算法",
        why="benchmark 在第一次遇到某个形状时试遍所有算法，结果只对该形状有效。尺寸不断变化时，许多步都在搜索：慢、时快时慢，显存还有尖峰。",
        fix="关掉它（torch.backends.cudnn.benchmark = False；MXNET_CUDNN_AUTOTUNE_DEFAULT=0；onnxruntime 设 cudnn_conv_algo_search=HEURISTIC），或把输入填充/分桶到少数几种尺寸。",
    ),
)
