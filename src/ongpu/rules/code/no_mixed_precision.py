"""Tensor cores are left unused: training runs in float32."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback, TrainingLog
from ongpu.facts.dryrun import DryRun
from ongpu.facts.hardware import Gpus
from ongpu.facts.intent import goes_on
from ongpu.facts.objects import Objects, cite
from ongpu.facts.profile import Profile
from ongpu.facts.program import Loop, Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Module, may_be_gpu
from ongpu.facts.weights import parameters
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(
    symptoms: Symptoms | None, traceback: Traceback | None, gpus: Gpus | None, log: TrainingLog | None, profile: Profile | None,
    objects: Objects | None, dryrun: DryRun | None, program: Program | None,
) -> Iterator[Finding]:
    if program and not (dryrun or profile or traceback):
        busy = bool(gpus and any((g.utilization or 0) >= 85 for g in gpus.gpus))
        asked = busy or bool(symptoms and symptoms.has("slow-words", "tensor-pipe-idle", "newer-tensor-cards", "slow-told-plainly", "flops-told"))
        shown = symptoms.value("gpu", "low-utilization") if symptoms else None
        if shown and int(shown) < 50 and not busy:  # a card that waits gains nothing by computing faster
            asked = False
        newer = bool(symptoms and symptoms.has("newer-tensor-cards"))
        yield from (finding for script in program.scripts for finding in _in_source(script, asked, newer))
    if dryrun:
        yield from _in_run(dryrun)
    if profile:
        yield from _in_profile(profile)
    if symptoms:
        yield from _in_words(symptoms, traceback, gpus, log)
    if objects:
        yield from _in_objects(objects)


MANY = 2_000_000  # parameters: below, a step is launch time and memory traffic rather than matrix products
LARGE = ("torchvision.models.", "timm.create_model", "segmentation_models_pytorch.", "transformers.")
CHOSEN = (
    "autocast", "bfloat16", "float16", ".half(", "fp16", "bf16", "cuda.amp", "torch.amp", "use_amp", "args.amp", "--amp", "amp=", "apex", "tf32", "TF32", "matmul_precision", "float64", "double", "mixed_precision", "precision=",
)


def _in_source(script: Script, asked: bool, newer: bool) -> Iterator[Finding]:
    """A large model that is trained on CUDA, where the script says nothing about precision: a note, unless speed is asked for."""
    if script.managed or script.says(*CHOSEN):
        return
    for loop in script.loops:
        calls = [f for f in loop.forwards or () if loop.trains and f.loop is loop and isinstance(f.receiver, Module)]
        for call in calls:
            model = call.receiver.inner if isinstance(call.receiver, Module) else None
            if model is None or not may_be_gpu(model.where(call)):
                continue
            if model.name.startswith(LARGE) or model.name.startswith("torch.nn.Transformer") or parameters(script, model) >= MANY:
                timed = _measured(script, loop)
                yield Finding(
                    certainty=Certainty.LIKELY if (asked and newer) or timed else Certainty.POSSIBLE, severity=None if asked or timed else Severity.NOTE, variant="source",
                    values={"code": call.words(60), "model": model.name},
                    refs=(call.ref(),),
                )  # fmt: skip
                return


def _measured(script: Script, loop: Loop) -> bool:
    """Whether each turn waits for the GPU and reads a clock: somebody measures how fast the steps are."""
    waits = any(loop in e.at.loops for e in script.calls("torch.cuda.synchronize", ".elapsed_time"))
    return waits and any(loop in e.at.loops for e in script.calls("time.time", "time.perf_counter", "time.monotonic", "timeit.default_timer", "torch.cuda.Event"))


def _in_objects(objects: Objects) -> Iterator[Finding]:
    """A float32 model in training on a card with TF32, which is off; autocast may still come around the forward pass."""
    card = next((m for m in objects.memory if m.device == objects.home), None)
    newer = card is not None and card.capability is not None and card.capability >= (8, 0)
    if newer and objects.weights_dtype == "float32" and objects.optimizer and objects.precision == "highest" and not objects.autocast:
        yield Finding(
            certainty=Certainty.POSSIBLE, severity=Severity.NOTE, values={"card": card.name if card else "?"}, refs=cite(objects.of("parameter"), 1)
        )


def _in_profile(profile: Profile) -> Iterator[Finding]:
    """A timeline whose matrix products run on the ordinary cores of a card that has tensor cores."""
    for gpu in profile.gpus:
        plain, family = gpu.of_kernels("plain-matmul"), gpu.family("plain-matmul")
        capability = gpu.card.capability if gpu.card else None
        if family is None or plain < 30 or gpu.share(gpu.busy) < 30 or (capability and int(capability.partition(".")[0] or 0) < 7):
            continue
        yield Finding(
            certainty=Certainty.LIKELY if capability else Certainty.POSSIBLE, severity=None if plain >= 50 else Severity.NOTE,
            subject=f"GPU {gpu.index}", variant="trace",
            values={
                "gpu": gpu.index, "share": f"{plain:.0f}", "cores": f"{gpu.of_kernels('tensor-core') + gpu.of_kernels('attention'):.0f}",
                "kernel": family.example.partition("(")[0].removeprefix("void ")[:60], "card": gpu.card.name if gpu.card and capability else "?",
                "most": f"{plain * gpu.share(gpu.busy) / 100:.0f}",
            },
            refs=(gpu.ref, family.ref),
        )


def _in_words(symptoms: Symptoms, traceback: Traceback | None, gpus: Gpus | None, log: TrainingLog | None) -> Iterator[Finding]:
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


def _in_run(run: DryRun) -> Iterator[Finding]:
    """From a dry run: much matrix work on a card with tensor cores, all of it in float32."""
    dtypes = {dtype for model in run.devices.models for dtype in model.dtypes if "float" in dtype}
    each = run.devices.flop.get("cuda", 0.0) / max(1, run.turns)
    if run.card.capability >= (7, 0) and each >= 1e11 and dtypes == {"float32"} and not run.calls.autocast:
        yield Finding(severity=Severity.NOTE, certainty=Certainty.LIKELY, variant="run" if run.card.capability >= (8, 0) else "run-half", values={"card": run.card.name, "work": f"{each / 1e12:.3g}"}, refs=run.heaviest())


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
    variants={
        "source": (
            Text(
                title="{model} is trained in full float32: neither autocast nor TF32 is named",
                why="Cards from Volta on compute matrix products and convolutions several times faster on tensor cores, in float16 or bfloat16; Ampere and newer take TF32 for float32 itself, which is off for matrix products unless asked for.",
                fix="torch.set_float32_matmul_precision('high') at the start; then with torch.autocast('cuda', dtype=torch.bfloat16) around the forward pass and the loss (float16 with torch.amp.GradScaler on Volta and Turing). Measure both speed and accuracy.",
            ),
            Text(
                title="{model} 以完整的 float32 训练：没有用 autocast，也没有用 TF32",
                why="从 Volta 起，显卡用 Tensor Core 以 float16 或 bfloat16 计算矩阵乘法和卷积要快几倍；Ampere 及更新的卡对 float32 本身也可用 TF32，但矩阵乘法默认不开。",
                fix="开头设 torch.set_float32_matmul_precision('high')；再把前向和损失放进 with torch.autocast('cuda', dtype=torch.bfloat16)（Volta、Turing 用 float16 加 torch.amp.GradScaler）。速度和精度都请实测。",
            ),
        ),
        "run": (
            Text(
                title="{work} TFLOP a pass run in float32, though {card} has tensor cores",
                why="No autocast was entered and all weights are float32 in the dry run. TF32 (torch.set_float32_matmul_precision('high')) may be on: it is not seen here.",
                fix="torch.set_float32_matmul_precision('high') keeps float32 and uses TF32; torch.autocast('cuda', dtype=torch.bfloat16) shrinks the activations too. Measure what it gains.",
            ),
            Text(
                title="每轮 {work} TFLOP 以 float32 运行，而 {card} 有 Tensor Core",
                why="试运行中没有进入 autocast，权重全是 float32。TF32（torch.set_float32_matmul_precision('high')）可能已打开：这里看不出来。",
                fix="torch.set_float32_matmul_precision('high') 保持 float32 并使用 TF32；torch.autocast('cuda', dtype=torch.bfloat16) 还能减少激活显存。收益请实测。",
            ),
        ),
        "run-half": (
            Text(
                title="{work} TFLOP a pass run in float32, though {card} has tensor cores",
                why="No autocast was entered and all weights are float32 in the dry run. The tensor cores of this card (before Ampere) compute in float16 only: they have no bfloat16 and no TF32.",
                fix="torch.autocast('cuda', dtype=torch.float16) with torch.amp.GradScaler('cuda'). Measure what it gains.",
            ),
            Text(
                title="每轮 {work} TFLOP 以 float32 运行，而 {card} 有 Tensor Core",
                why="试运行中没有进入 autocast，权重全是 float32。这张卡（早于 Ampere）的 Tensor Core 只能算 float16：没有 bfloat16，也没有 TF32。",
                fix="torch.autocast('cuda', dtype=torch.float16)，配合 torch.amp.GradScaler('cuda')。收益请实测。",
            ),
        ),
        "trace": (
            Text(
                title="{share} % of the kernels' time are matrix products that do not use tensor cores (float32: {kernel})",
                why="The names of the kernels tell it: sgemm, scudnn and simt kernels compute on the ordinary cores, hmma, s16816, tensorop, wgmma and xmma ones on tensor cores ({cores} % here).{card: The * has tensor cores, which do such products several times faster.|} Were they free, a step would take at most about {most} % less.",
                fix="with torch.autocast(\"cuda\", dtype=torch.bfloat16) from compute capability 8.0 on; torch.float16 with a GradScaler on 7.x. Keeping float32: torch.set_float32_matmul_precision(\"high\") turns on TF32 (8.0 and newer). Sizes that are multiples of 8 (channels, vocabulary, batch).",
            ),
            Text(
                title="kernel 时间的 {share} % 是没有使用 tensor core 的矩阵运算（float32：{kernel}）",
                why="从 kernel 名字可以看出：sgemm、scudnn、simt 类在普通核心上计算，hmma、s16816、tensorop、wgmma、xmma 类在 tensor core 上计算（此处占 {cores} %）。{card:* 带有 tensor core，做这类运算快数倍。|}即使这些运算不耗时，每步最多也只快约 {most} %。",
                fix="计算能力 8.0 及以上用 with torch.autocast(\"cuda\", dtype=torch.bfloat16)；7.x 用 torch.float16 配合 GradScaler。若保持 float32：torch.set_float32_matmul_precision(\"high\") 可启用 TF32（8.0 及以上）。各维大小取 8 的倍数（通道、词表、batch）。",
            ),
        ),
    },
)
