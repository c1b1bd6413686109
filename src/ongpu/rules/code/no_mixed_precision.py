"""Tensor cores are left unused: training runs in float32."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback, TrainingLog
from ongpu.facts.hardware import Gpus
from ongpu.facts.intent import goes_on
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms, traceback: Traceback | None, gpus: Gpus | None, log: TrainingLog | None) -> Iterator[Finding]:
    hint = symptoms.cite("tf32-off", most=2)
    off = symptoms.cite("precision-off", "amp-off-told", most=2)
    idle = symptoms.cite("tensor-pipe-idle", most=2)
    failed = traceback is not None and any(r.error for r in traceback.raised)
    slow = symptoms.has("slow-words", "low-utilization") or (symptoms.has("newer-tensor-cards") and symptoms.has("amp-off-told"))
    slow = slow or symptoms.has("gpu-slower-told", "tensor-pipe-idle")
    busy = bool(gpus and any((g.utilization or 0) >= 85 for g in gpus.gpus))
    if not hint and not idle and not (off and (slow or busy or (log and log.speeds))):
        return
    complained = off or idle or busy or symptoms.has("slow-told-plainly", "low-utilization")
    quiet = failed or (not complained and goes_on(symptoms))
    yield Finding(
        certainty=Certainty.LIKELY if (idle or (off and (busy or symptoms.has("newer-tensor-cards"))) or (hint and not failed)) else Certainty.POSSIBLE,
        severity=Severity.NOTE if quiet else None,
        values={"card": symptoms.value("card", "tf32-off") or (gpus.all_names()[0] if gpus and gpus.all_names() else "this GPU")},
        refs=(*hint, *off, *idle, *(gpus.refs[:2] if gpus and busy else ())),
    )


RULE = Rule(
    slug="no-mixed-precision",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html", "https://docs.pytorch.org/docs/stable/amp.html",),
    en=Text(
        title="Tensor cores of {card} stay unused: matrix products run in full float32",
        why="On Volta and newer cards half precision (float16, bfloat16) runs many times faster on tensor cores, and on Ampere and newer TF32 helps float32 itself; both are off here. How much is gained depends on the share of matrix products: measure it.",
        fix="torch.set_float32_matmul_precision('high') (TF32) at the start; then torch.autocast('cuda', dtype=torch.bfloat16), or float16 with torch.amp.GradScaler('cuda'); Trainer bf16=True or fp16=True; accelerate launch --mixed_precision bf16; Lightning precision='bf16-mixed'; Keras mixed_precision.set_global_policy('mixed_float16').",
    ),
    zh=Text(
        title="{card} 的 Tensor Core 没有用上：矩阵乘法以完整 float32 运行",
        why="Volta 及更新的卡上，半精度（float16、bfloat16）在 Tensor Core 上快很多倍；Ampere 及更新的卡还有 TF32 可加速 float32。这里两者都没开。收益取决于矩阵乘法的占比，请实测。",
        fix="开头设 torch.set_float32_matmul_precision('high')（TF32）；再用 torch.autocast('cuda', dtype=torch.bfloat16)，或 float16 加 torch.amp.GradScaler('cuda')；Trainer 用 bf16=True 或 fp16=True；accelerate launch --mixed_precision bf16；Lightning precision='bf16-mixed'；Keras mixed_precision.set_global_policy('mixed_float16')。",
    ),
)
