"""Another environment variable than CUDA_VISIBLE_DEVICES turns the GPU off."""

import re
from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.framework import Jax, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.intent import on_purpose
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

# variable -> (values that turn the GPU off, whose variable it is)
# fmt: off
_SWITCHES = {
    "JAX_PLATFORMS": (r"cpu\b(?!.*(?:cuda|gpu))", "JAX"), "JAX_PLATFORM_NAME": (r"cpu", "JAX"), "NUMBA_DISABLE_CUDA": (r"1|true", "Numba"),
    "NUMBA_ENABLE_CUDASIM": (r"1|true", "Numba (simulator)"), "OLLAMA_LLM_LIBRARY": (r"cpu\w*", "Ollama"), "OLLAMA_NUM_GPU": (r"0", "Ollama"),
    "ACCELERATE_USE_CPU": (r"1|true|yes|y", "Accelerate"), "USE_CUDA": (r"0|false|off|no", ""), "USE_GPU": (r"0|false|off|no", ""),
    "FORCE_CPU": (r"1|true|yes", ""), "FORCE_CUDA": (r"0|false|off", ""), "VLLM_TARGET_DEVICE": (r"cpu", "vLLM"), "DS_ACCELERATOR": (r"cpu", "DeepSpeed"),
    "DEVICE": (r"cpu", ""), "TORCH_DEVICE": (r"cpu", ""), "WHISPER_DEVICE": (r"cpu", ""), "WHISPER__INFERENCE_DEVICE": (r"cpu", "faster-whisper-server"),
    "NO_CUDA": (r"1|true|on", ""), "CUDA_DISABLE": (r"1|true", ""), "GGML_CUDA": (r"0|off", "llama.cpp"), "LLAMA_CUBLAS": (r"0|off", "llama.cpp"),
    "THEANO_FLAGS": (r".*device=cpu.*", "Theano"), "XGBOOST_DEVICE": (r"cpu", "XGBoost"), "KERAS_DEVICE": (r"cpu", "Keras"), "PJRT_DEVICE": (r"cpu", "PyTorch/XLA"),
    "CUDA_FORCE_CPU": (r"1|true", ""), "TF_FORCE_CPU": (r"1|true", ""), "DISABLE_CUDA": (r"1|true", ""), "GPU_ENABLED": (r"0|false", ""),
    "COMMANDLINE_ARGS": (r".*--(?:use-cpu[ =]all|cpu\b|always-cpu).*", "Stable Diffusion web UI"), "CUDA_DISABLE_PTX_JIT": (r"1", "CUDA"), "HF_DEVICE": (r"cpu", ""),
    "N_GPU_LAYERS": (r"0", "llama.cpp"), "LLAMA_ARG_N_GPU_LAYERS": (r"0", "llama.cpp"), "GPU_LAYERS": (r"0", "llama.cpp"), "BLIS_NUM_GPU": (r"0", ""), "SPACY_GPU": (r"0|false", "spaCy"),
    "TF_NUM_GPUS": (r"0", ""), "RAY_NUM_GPUS": (r"0", "Ray"), "MLFLOW_DEVICE": (r"cpu", ""), "ONNXRUNTIME_PROVIDER": (r"cpu\w*", "ONNX Runtime"), "SENTENCE_TRANSFORMERS_DEVICE": (r"cpu", ""),
    "PYTORCH_DEVICE": (r"cpu", ""), "INFERENCE_DEVICE": (r"cpu", ""), "EMBEDDING_DEVICE": (r"cpu", ""), "COMPUTE_DEVICE": (r"cpu", ""), "OLLAMA_GPU": (r"0|false", "Ollama"), "OPENCV_DNN_BACKEND": (r"cpu", "OpenCV"),
}
# fmt: on


# AMD's ways to choose cards: Slurm sets all three beside CUDA_VISIBLE_DEVICES (https://slurm.schedmd.com/gres.html); Ollama and Ray obey them.
_AMD = ("ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES")


def _nvidia(gpus: Gpus | None) -> str | None:
    """The name of an NVIDIA card that is there."""
    names = gpus.all_names() if gpus else ()
    return next((name for name in names if not any(word in name.lower() for word in ("amd", "radeon", "instinct"))), None)


def check(
    variables: Variables | None,
    symptoms: Symptoms | None,
    torch: Torch | None,
    flow: TensorFlow | None,
    jax: Jax | None,
    gpus: Gpus | None,
) -> Iterator[Finding]:
    if symptoms and symptoms.has("env-var-said"):
        name, value = (
            symptoms.value("name", "env-var-said") or "NUMBA_ENABLE_CUDASIM",
            symptoms.value("value", "env-var-said") or "1",
        )
        yield Finding(
            values={"name": name, "value": value, "who": "DeepSpeed" if name.startswith("DS") else "Numba"},
            fixes=(Fix("unset-variable", {"name": name}),),
            refs=(*symptoms.cite("env-var-said"), *(variables.cite(name) if variables else ())),
        )
        return
    refused = symptoms.seen("amd-variable-refused") if symptoms else ()
    amd = next((v for hit in refused for key in ("name", "name2", "name3", "name4") if (v := hit.groups.get(key))), None)
    if not refused and variables and symptoms and symptoms.has("ollama-runner-log"):
        amd = next((item for item in _AMD if variables.get(item) and variables.get(item) != "-1"), None)
    stops = any("user overrode" not in hit.ref.quote for hit in refused)  # Ollama warns, Ray and verl raise
    if amd and (nvidia := _nvidia(gpus)) and symptoms and (stops or symptoms.has("gpu-not-seen", "ollama-on-cpu", "no-gpu-complaint")):
        yield Finding(
            variant="amd",
            certainty=Certainty.LIKELY,
            values={"name": amd, "value": (variables.get(amd) if variables else None) or symptoms.value("value", "amd-variable-refused") or "?", "card": nvidia},
            fixes=(Fix("unset-variable", {"name": amd}),),
            refs=(*symptoms.cite("amd-variable-refused", "gpu-not-seen", "ollama-on-cpu", most=2), *(variables.cite(amd) if variables else ()), *(gpus.cite()[:1] if gpus else ())),
        )
        return
    if not variables:
        return
    platforms = variables.get("JAX_PLATFORMS") or ""
    if platforms and symptoms and symptoms.has("jax-unknown-backend", "jax-rocm-backend") and platforms != "cpu":
        yield Finding(
            certainty=Certainty.LIKELY,
            values={"name": "JAX_PLATFORMS", "value": platforms, "who": "JAX"},
            fixes=(Fix("unset-variable", {"name": "JAX_PLATFORMS"}),),
            refs=(*variables.cite("JAX_PLATFORMS"), *symptoms.cite("jax-unknown-backend", "jax-rocm-backend")),
        )
        return
    missed = (
        *blind(symptoms, torch, flow, jax),
        *(symptoms.cite("chose-cpu", "no-gpu-complaint", "jax-gpu-maybe", "ollama-on-cpu", most=2) if symptoms else ()),
    )
    ollama = variables.get("OLLAMA_LLM_LIBRARY")
    if ollama and not ollama.startswith("cpu") and symptoms and symptoms.has("ollama-on-cpu"):
        yield Finding(
            certainty=Certainty.LIKELY,
            values={"name": "OLLAMA_LLM_LIBRARY", "value": ollama, "who": "Ollama"},
            fixes=(Fix("unset-variable", {"name": "OLLAMA_LLM_LIBRARY"}),),
            refs=(*variables.cite("OLLAMA_LLM_LIBRARY"), *symptoms.cite("ollama-on-cpu", most=2)),
        )
        return
    for name, (pattern, who) in _SWITCHES.items():
        value = variables.get(name) or ""
        if not value or not re.fullmatch(pattern, value.strip(), re.IGNORECASE):
            continue
        plain = name in (
            "DEVICE",
            "USE_CUDA",
            "FORCE_CUDA",
            "GGML_CUDA",
            "LLAMA_CUBLAS",
            "COMPUTE_DEVICE",
            "N_GPU_LAYERS",
        )
        if torch and torch.cuda == "" and plain:
            continue
        yield Finding(
            certainty=Certainty.CERTAIN if missed and not plain else Certainty.LIKELY,
            severity=Severity.NOTE if on_purpose(symptoms) or (symptoms and symptoms.has("cpu-wanted")) else Severity.WARNING if not missed and plain else None,
            variant="" if who else "plain",
            values={"name": name, "value": value, "who": who},
            fixes=(Fix("unset-variable", {"name": name}),),
            refs=(*variables.cite(name), *missed),
        )
        return


RULE = Rule(
    slug="env-var-disables-gpu",
    layer=Layer.ENVIRONMENT,
    severity=Severity.ERROR,
    check=check,
    hides=("jax-without-cuda", "gpu-extra-missing", "cuda-unavailable"),
    settle=("env | grep -iE 'cuda|gpu|device|platform|jax|numba|ollama'",),
    see=(
        "https://docs.jax.dev/en/latest/config_options.html",
        "https://numba.readthedocs.io/en/stable/reference/envvars.html",
        "https://github.com/ollama/ollama/blob/main/docs/troubleshooting.md",
    ),
    en=Text(
        title="{name}={value} turns the GPU off ({who})",
        why="{name} is read by {who} and selects the CPU, whatever driver and package are installed.",
        fix="Remove {name} (unset {name}) where it is set: the shell's start files, the service or container definition, the notebook, or the code, and start the program again.",
    ),
    zh=Text(
        title="{name}={value} 关掉了 GPU（{who}）",
        why="{who} 会读取 {name}，从而选择 CPU，无论装了什么驱动和包。",
        fix="在设置它的地方（shell 启动文件、服务或容器定义、notebook、代码）去掉 {name}（unset {name}），然后重新启动程序。",
    ),
    variants={
        "amd": (
            Text(
                title="{name}{value:=*} is AMD's choice of cards, and keeps this program from {card}",
                why="The machine has an NVIDIA card. Slurm sets ROCR_VISIBLE_DEVICES and GPU_DEVICE_ORDINAL beside CUDA_VISIBLE_DEVICES, ROCm's installation puts HIP_VISIBLE_DEVICES into start files; programs that serve both makers (Ollama, Ray, verl) obey them or refuse to start, and then find no card.",
                fix="Remove it before the program starts (unset ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL), and leave only CUDA_VISIBLE_DEVICES.",
            ),
            Text(
                title="{name}{value:=*} 是 AMD 的选卡变量，使该程序用不到 {card}",
                why="这台机器是 NVIDIA 卡。Slurm 会在 CUDA_VISIBLE_DEVICES 之外设置 ROCR_VISIBLE_DEVICES 和 GPU_DEVICE_ORDINAL，ROCm 安装会把 HIP_VISIBLE_DEVICES 写进启动文件；同时支持两家的程序（Ollama、Ray、verl）会遵从它们或拒绝启动，于是找不到显卡。",
                fix="在启动程序前去掉（unset ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL），只保留 CUDA_VISIBLE_DEVICES。",
            ),
        ),
        "plain": (
            Text(
                title="{name}={value} turns the GPU off",
                why="The program (or the build of its extension) reads {name} and chooses the CPU, whatever driver and package are installed.",
                fix="Remove {name} (unset {name}) where it is set: the shell's start files, the service or container definition, the notebook, or the code, and start the program (or the build) again.",
            ),
            Text(
                title="{name}={value} 关掉了 GPU",
                why="程序（或其扩展的构建过程）会读取 {name}，从而选择 CPU，无论装了什么驱动和包。",
                fix="在设置它的地方（shell 启动文件、服务或容器定义、notebook、代码）去掉 {name}（unset {name}），然后重新启动程序（或重新构建）。",
            ),
        ),
    },
)
