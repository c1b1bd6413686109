"""torch.compile compiles the same function again and again."""

from collections.abc import Iterator

from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text, Words


def check(symptoms: Symptoms) -> Iterator[Finding]:
    limit = symptoms.has("dynamo-limit")
    again = symptoms.seen("dynamo-recompile")
    graphs = symptoms.cite("cudagraph-sizes", most=2)
    sizes = [r for r in graphs if "skipping" not in r.quote.lower()]
    told = symptoms.cite("recompile-told", most=2) if symptoms.has("compile-words") and (symptoms.has("slow-words", "new-size-slow", "shapes-vary") or any("triggered" in h.ref.quote for h in symptoms.seen("recompile-told"))) else ()
    if told and not limit and len(again) < 3:
        sizes = list(told)
    if not limit and len(again) < 3 and not sizes:
        return
    yield Finding(
            fixes=(Fix("recompile-log"),),
        certainty=Certainty.CERTAIN if limit else Certainty.LIKELY,
        values={
            "function": symptoms.value("fn", "dynamo-function", "dynamo-recompile") or Words("a compiled function", "某个已编译的函数"),
            "reason": symptoms.value("why", "dynamo-reason") or symptoms.value("mismatch", "dynamo-reason") or Words("see the guard that failed", "见失败的守卫条件"),
            "limit": symptoms.value("n", "dynamo-limit") or "8",
        },
        refs=(*symptoms.cite("dynamo-limit", "dynamo-function", "dynamo-reason", most=2), *symptoms.cite("dynamo-recompile", most=2), *sizes),
    )


RULE = Rule(
    slug="torch-compile-recompiles",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",),
    en=Text(
        title="torch.compile keeps recompiling {function} (limit {limit}): {reason}",
        why="Each compiled version is guarded by what it assumed: shapes, numbers, modules, dtypes. Inputs that break a guard at every call cause a recompile each time; beyond the limit the function runs uncompiled (or fails with fullgraph=True).",
        fix="See the reasons with TORCH_LOGS=recompiles. Mark what varies: torch.compile(..., dynamic=True), torch._dynamo.mark_dynamic(x, dim), torch._dynamo.config.force_parameter_static_shapes = False for parameters; pass changing numbers as tensors; pad to a few sizes; else raise torch._dynamo.config.recompile_limit (cache_size_limit before 2.6).",
    ),
    zh=Text(
        title="torch.compile 反复重新编译 {function}（上限 {limit}）：{reason}",
        why="每个编译版本都有守卫条件：形状、数值、模块、dtype。每次调用都不满足守卫的输入会导致每次都重编译；超过上限后该函数不再编译执行（fullgraph=True 时直接报错）。",
        fix="用 TORCH_LOGS=recompiles 查看原因。标明会变的部分：torch.compile(..., dynamic=True)、torch._dynamo.mark_dynamic(x, dim)，参数形状变化用 torch._dynamo.config.force_parameter_static_shapes = False；变化的数字改传张量；填充到少数几种尺寸；或调大 torch._dynamo.config.recompile_limit（2.6 之前叫 cache_size_limit）。",
    ),
)
