"""The program's own settings (an option, a configuration file, an argument) say CPU."""

from collections.abc import Iterator

from ongpu.facts.framework import Jax, OnnxRuntime, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.mismatch import Mismatches
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

_SETTINGS = ("setting-cpu-flag", "setting-cpu-config")


def check(
    symptoms: Symptoms,
    torch: Torch | None,
    flow: TensorFlow | None,
    gpus: Gpus | None,
    onnx: OnnxRuntime | None,
    jax: Jax | None,
    mismatches: Mismatches | None,
) -> Iterator[Finding]:
    if symptoms.has("lightning-not-used"):
        yield Finding(
            variant="lightning",
            certainty=Certainty.CERTAIN,
            values={"setting": symptoms.value("setting", *_SETTINGS) or "accelerator"},
            refs=(*symptoms.cite("lightning-not-used"), *symptoms.cite(*_SETTINGS)),
        )
        return
    if not symptoms.has(*_SETTINGS):
        return
    setting = symptoms.value("flag", "setting-cpu-flag") or symptoms.value("setting", "setting-cpu-config") or "?"
    flag = symptoms.has("setting-cpu-flag")
    cannot = (
        bool((torch and (torch.cuda == "" or torch.available is False)) or (flow and flow.gpus == 0))
        or mismatches is not None
        or symptoms.has("torch-not-compiled-with-cuda", "cuda-requested-unavailable")
    )
    works = bool(
        (torch and torch.available)
        or (gpus and gpus.gpus)
        or (flow and flow.gpus)
        or (onnx and any("CUDA" in p for p in onnx.providers or ()))
    )
    asked = symptoms.has("chose-cpu", "idle-gpu-told", "gpu-use-asked", "slow-words", "gpu-wanted")
    if cannot and not works and not flag:
        return
    if not (works or asked or flag):
        return
    sure = works and (asked or symptoms.has("chose-cpu"))
    yield Finding(
        certainty=Certainty.POSSIBLE if cannot else Certainty.CERTAIN if sure and flag else Certainty.LIKELY,
        severity=None if works or asked else Severity.WARNING,
        values={"setting": setting.strip("\"' ")},
        refs=(
            *symptoms.cite(*_SETTINGS),
            *symptoms.cite("chose-cpu", "idle-gpu-told", most=2),
            *blind(symptoms, torch, flow, jax)[:2],
            *(torch.about("available") if torch and torch.available else ()),
        ),
    )


RULE = Rule(
    slug="config-forces-cpu",
    layer=Layer.ENVIRONMENT,
    severity=Severity.ERROR,
    check=check,
    see=(
        "https://lightning.ai/docs/pytorch/stable/common/trainer.html#accelerator",
        "https://huggingface.co/docs/accelerate/package_reference/cli",
    ),
    en=Text(
        title="The program's own setting chooses the CPU: {setting}",
        why="The GPU and the framework may be in order; this option or configuration entry tells the program to use the CPU.",
        fix="Change {setting} to the GPU: --device cuda (or cuda:0), device: cuda, use_cpu: false, gpu=True, n_gpu_layers=-1 (llama.cpp), providers=['CUDAExecutionProvider', 'CPUExecutionProvider'], accelerator='gpu'; in `accelerate config` answer No to CPU only.",
    ),
    zh=Text(
        title="程序自己的设置选择了 CPU：{setting}",
        why="GPU 和框架可能都没问题，是这个选项或配置项让程序使用 CPU。",
        fix="把 {setting} 改为 GPU：--device cuda（或 cuda:0）、device: cuda、use_cpu: false、gpu=True、n_gpu_layers=-1（llama.cpp）、providers=['CUDAExecutionProvider', 'CPUExecutionProvider']、accelerator='gpu'；`accelerate config` 中“仅用 CPU”选 No。",
    ),
    variants={
        "lightning": (
            Text(
                title="Lightning has a GPU but does not use it (GPU available: True, used: False)",
                why="The Trainer was made without asking for a GPU ({setting}): older releases use the CPU unless told otherwise.",
                fix="Trainer(accelerator='gpu', devices=1), or accelerator='auto' (before 1.7: gpus=1).",
            ),
            Text(
                title="Lightning 有 GPU 却没有使用（GPU available: True, used: False）",
                why="创建 Trainer 时没有要求 GPU（{setting}）：旧版本默认用 CPU。",
                fix="Trainer(accelerator='gpu', devices=1)，或 accelerator='auto'（1.7 之前：gpus=1）。",
            ),
        ),
    },
)
