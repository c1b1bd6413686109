"""The program's own settings (an option, a configuration file, an argument) say CPU."""

import ast
import re
from collections.abc import Iterator

from ongpu.facts.comparisons import Comparisons
from ongpu.facts.framework import Jax, OnnxRuntime, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.intent import on_purpose
from ongpu.facts.mismatch import Mismatches
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.traced import called, jax_steps, jits, meant, tf_steps, trainers
from ongpu.facts.values import CPU, Const, Device, Items
from ongpu.facts.visible import blind
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

_SETTINGS = ("setting-cpu-flag", "setting-cpu-config", "setting-cpu-listed", "setting-cpu-index", "setting-cpu-default")
_IDLE = ("chose-cpu", "idle-gpu-told", "gpu-use-asked", "slow-words", "gpu-wanted", "gpu-idle-words", "ollama-on-cpu")


def check(
    symptoms: Symptoms | None,
    torch: Torch | None,
    flow: TensorFlow | None,
    gpus: Gpus | None,
    onnx: OnnxRuntime | None,
    jax: Jax | None,
    mismatches: Mismatches | None,
    program: Program | None,
    comparisons: Comparisons | None,
) -> Iterator[Finding]:
    yield from (finding for script in program.scripts for finding in (*_in_source(script), *_in_traced(script))) if program else ()
    if symptoms is None or (comparisons and comparisons.gpu_over_cpu() is not None):  # both were run, to compare them
        return
    if symptoms.has("lightning-not-used"):
        yield Finding(
            variant="lightning",
            certainty=Certainty.CERTAIN,
            values={"setting": symptoms.value("setting", *_SETTINGS) or "accelerator"},
            refs=(*symptoms.cite("lightning-not-used"), *symptoms.cite(*_SETTINGS)),
        )
        return
    if onnx and onnx.cpu_session and onnx.offers_cuda and not symptoms.has("ort-126", "ort-cuda-create-failed"):
        yield Finding(
            variant="session",
            certainty=Certainty.LIKELY,
            values={"setting": "providers", "have": onnx.session or (), "offered": onnx.providers or ()},
            refs=(*onnx.about("session"), *onnx.about("providers")),
        )
        return
    if symptoms.has("llama-none-offloaded", "llama-cuda-build") and _none_offloaded(symptoms):
        yield Finding(
            variant="layers",
            certainty=Certainty.LIKELY,
            values={"layers": symptoms.value("layers", "llama-none-offloaded") or "?", "setting": symptoms.value("setting", "setting-cpu-config") or symptoms.value("flag", "setting-cpu-flag") or "?"},
            refs=(*symptoms.cite("llama-none-offloaded", "llama-cuda-build", most=2), *symptoms.cite(*_SETTINGS, most=2)),
        )
        return
    if not symptoms.has(*_SETTINGS):
        return
    if symptoms.has("setting-cpu-default") and not symptoms.has(*_SETTINGS[:4]):
        default = symptoms.value("flag", "setting-cpu-default")
        if symptoms.has(*_IDLE) and (default or symptoms.has("gpu-idle-words", "idle-gpu-told", "chose-cpu")):
            default = default or symptoms.value("flag2", "setting-cpu-default") or "?"
            yield Finding(
                variant="default",
                certainty=Certainty.LIKELY,
                values={"setting": default},
                refs=(*symptoms.cite("setting-cpu-default"), *symptoms.cite("gpu-idle-words", "idle-gpu-told", most=2)),
            )
        return
    setting = (
        symptoms.value("flag", "setting-cpu-flag")
        or symptoms.value("setting", "setting-cpu-config")
        or symptoms.value("setting", "setting-cpu-listed", "setting-cpu-index")
        or "?"
    )
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
    asked = symptoms.has(*_IDLE)
    if cannot and not works and not flag:
        return
    named = bool(gpus and gpus.names and symptoms.has("setting-cpu-index", "setting-cpu-listed", "slow-told"))
    if not (works or asked or flag or named):
        return
    sure = works and (asked or symptoms.has("chose-cpu"))
    yield Finding(
        certainty=Certainty.POSSIBLE if cannot else Certainty.CERTAIN if sure and flag else Certainty.LIKELY,
        severity=Severity.NOTE if on_purpose(symptoms) else None if works or asked else Severity.WARNING,
        values={"setting": setting.strip("\"' ")},
        refs=(
            *symptoms.cite(*_SETTINGS),
            *symptoms.cite("chose-cpu", "idle-gpu-told", "gpu-idle-words", most=2),
            *blind(symptoms, torch, flow, jax)[:2],
            *(torch.about("available") if torch and torch.available else ()),
        ),
    )


def _in_source(script: Script) -> Iterator[Finding]:
    """A device that the source itself fixes to the CPU although it provides for CUDA elsewhere, and Lightning told to use the CPU."""
    for trainer in script.calls("lightning.Trainer", "lightning.Fabric", "transformers.TrainingArguments", "accelerate.Accelerator"):
        told = next((n for n, v in (("accelerator", "cpu"), ("no_cuda", True), ("use_cpu", True), ("cpu", True), ("gpus", 0)) if trainer.says(n) == v and trainer.says(n) is not ...), None)
        if told and (trainer.name != "lightning.Fabric" or script.trains):  # Fabric on the CPU also merges and converts weights
            yield Finding(certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="source", values={"setting": trainer.words(60)}, refs=(trainer.ref(),))
            return
    layers = _no_layers(script)
    if layers is not None:
        yield Finding(certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="source", values={"setting": layers[1]}, refs=(script.file.ref(layers[0]),))
        return
    inverted = _inverted(script)
    if inverted is not None:
        yield Finding(certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="source", values={"setting": inverted.words(60)}, refs=(inverted.ref(),))
        return
    switch = _switched_off(script) if script.trains else None
    if switch is not None:
        words = script.file.quote(switch)
        yield Finding(certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="source", values={"setting": words}, refs=(script.file.ref(switch),))
        return
    moves = [m for module in script.modules for m in module.moves or ()]
    forced = [m for m in moves if m.device.where == CPU and isinstance(m.event.arg(0, "device"), Device | Const)]
    if forced and len(forced) == len(moves) and script.trains and any(True for _ in script.calls(*LOOKS)):
        yield Finding(certainty=Certainty.POSSIBLE, severity=Severity.WARNING, variant="source", values={"setting": forced[0].event.words(60)}, refs=(forced[0].event.ref(),))


LOOKS = ("torch.cuda.is_available", "torch.cuda.get_device_name", "torch.cuda.device_count", "torch.cuda.synchronize", "torch.cuda.max_memory_allocated")


def _no_layers(script: Script) -> tuple[ast.expr, str] | None:
    """num_gpu: 0 (Ollama) or n_gpu_layers=0 (llama.cpp), written out: the value, and the setting in words."""
    if not script.says("num_gpu", "n_gpu_layers"):
        return None
    for node in ast.walk(script.tree):
        pairs: list[tuple[object, ast.expr]] = []
        if isinstance(node, ast.Dict):
            pairs = [(key.value, value) for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)]
        elif isinstance(node, ast.Call) and "ray" not in script.imports:  # a ray task that needs no GPU
            pairs = [(k.arg, k.value) for k in node.keywords]
        for name, value in pairs:
            if name in ("num_gpu", "n_gpu_layers") and isinstance(value, ast.Constant) and value.value == 0 and value.value is not False:
                return value, f"{name}={value.value}"
    return None


_NEGATIVE = lazy(r"--(?:no|disable|without)[-_]?(?:cuda|gpu)$|--(?:cpu|use[-_]cpu|cpu[-_]only)$", re.IGNORECASE)


def _inverted(script: Script) -> Event | None:
    """--no-cuda with action="store_false" (or default=True): it holds unless it is given, so that the CPU is used by default."""
    for told in script.calls(".add_argument"):
        flags = [a.value for a in told.args if isinstance(a, Const) and isinstance(a.value, str)]
        if any(_NEGATIVE.match(flag) for flag in flags) and told.says("dest") is None:
            default, action = told.says("default"), told.says("action")
            name = re.escape(flags[-1].lstrip("-").replace("-", "_"))
            if not re.search(rf"\bnot \w{{1,40}}\.{name}\b|[\"']cpu[\"'] if \w{{1,40}}\.{name}\b|if \w{{1,40}}\.{name}:\s{{0,40}}device = [^\n]{{0,20}}cpu", script.file.text):
                continue  # asked for in the other sense
            if (action == "store_false" and default in (None, True)) or (action in (None, "store_true") and default is True):
                return told
    return None


_OFF = lazy(r"(?:cuda|gpu)\w{0,20} = False", re.IGNORECASE)


def _switched_off(script: Script) -> ast.Assign | None:
    """use_cuda = False, where nothing else sets the name and a choice of the device asks for it."""
    if not _OFF.search(script.file.text):
        return None
    sets: dict[str, list[ast.Assign]] = {}
    asked: set[str] = set()
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    sets.setdefault(target.id, []).append(node)
        elif isinstance(node, ast.IfExp | ast.If) and isinstance(node.test, ast.Name):
            asked.add(node.test.id)
    for name in sorted(asked):
        told = sets.get(name, [])
        off = len(told) == 1 and isinstance(told[0].value, ast.Constant) and told[0].value.value is False
        if off and any(word in name.lower() for word in ("cuda", "gpu")):
            return told[0]
    return None


def _in_traced(script: Script) -> Iterator[Finding]:
    """TensorFlow, JAX or Paddle told to use the CPU, in a script that trains with it."""
    steps, jax = list(tf_steps(script)), list(jax_steps(script))
    told: list[Event] = []
    if steps and not script.imports & {"jax", "torch"}:  # beside those, TensorFlow only reads the data
        hidden = script.calls("tensorflow.config.set_visible_devices", "tensorflow.config.experimental.set_visible_devices")
        told += [e for e in hidden if isinstance(none := e.arg(0, "devices"), Items) and not none.items and "GPU" in _words(e.arg(1, "device_type"))]
        told += _under_cpu(script, steps)
    wanted = script.says("GPU", "gpu")  # the author speaks of one: CPU is hardly meant for good
    if jax or ("jax" in script.imports and (wanted or any(j.framework == "jax" and "train" in j.name for j in jits(script)))):
        told += [e for e in script.calls("jax.config.update") if _words(e.arg(0)).startswith("jax_platform") and _words(e.arg(1)) == "cpu"]
        told += [e for e in script.events if e.variable in ("JAX_PLATFORMS", "JAX_PLATFORM_NAME") and _words(e.variable_value) == "cpu"]
    if script.trains:
        told += [e for e in script.calls("paddle.set_device", "paddle.device.set_device") if _words(e.arg(0)) == "cpu"]
    for event in [e for e in told if e.certain][:1]:
        yield Finding(certainty=Certainty.LIKELY, severity=Severity.NOTE if meant(event) else Severity.WARNING, variant="framework", values={"setting": event.words(60)}, refs=(event.ref(),))


def _under_cpu(script: Script, steps: list[Event]) -> list[Event]:
    """with tf.device("/CPU:0") around the training, where no other such block holds training."""
    names = trainers(steps) | {e.name.removeprefix(".") for e in steps}
    if any("cpu" not in _words(e.arg(0)).lower() for e in script.calls("tensorflow.device", "tensorflow.compat.v1.device")):
        return []  # the blocks inside it name other devices
    held: list[tuple[Event, bool]] = []
    for event in distinct(script.calls("tensorflow.device", "tensorflow.compat.v1.device")):
        blocks = [n for n in ast.walk(script.tree) if isinstance(n, ast.With) and any(item.context_expr is event.node for item in n.items)]
        if any(isinstance(x, ast.Call) and called(x) in names for block in blocks for s in block.body for x in ast.walk(s)):
            held.append((event, "cpu" in _words(event.arg(0)).lower()))
    return [event for event, cpu in held] if held and all(cpu for _, cpu in held) else []


def _words(value: object) -> str:
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else ""


def _none_offloaded(symptoms: Symptoms) -> bool:
    """Whether a llama.cpp with a working CUDA backend was told to put no layer on the card (Ollama decides by free memory)."""
    failed = symptoms.has("memory-not-enough", "compat-803", "compat-804", "no-kernel-image", "gpu-not-seen")
    return symptoms.has("llama-none-offloaded") and symptoms.has("llama-cuda-build") and not failed and not symptoms.has("ollama-runner-log")


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
        fix="Change {setting} to the GPU: --device cuda (or cuda:0), device: cuda, use_cpu: false, gpu=True, n_gpu_layers=-1 (llama.cpp), providers=['CUDAExecutionProvider', 'CPUExecutionProvider'], accelerator='gpu', --execution-providers cuda; in `accelerate config` answer No to CPU only.",
    ),
    zh=Text(
        title="程序自己的设置选择了 CPU：{setting}",
        why="GPU 和框架可能都没问题，是这个选项或配置项让程序使用 CPU。",
        fix="把 {setting} 改为 GPU：--device cuda（或 cuda:0）、device: cuda、use_cpu: false、gpu=True、n_gpu_layers=-1（llama.cpp）、providers=['CUDAExecutionProvider', 'CPUExecutionProvider']、accelerator='gpu'、--execution-providers cuda；`accelerate config` 中“仅用 CPU”选 No。",
    ),
    variants={
        "framework": (
            Text(
                title="The source tells the framework to use the CPU: {setting}",
                why="Whatever the machine has, the training of this script stays on the CPU.",
                fix="Take the line away: TensorFlow and JAX use the GPU by themselves where they find one (tf.config.list_physical_devices('GPU'), jax.devices()). Where the CPU is meant, choose it from outside (JAX_PLATFORMS=cpu, CUDA_VISIBLE_DEVICES=-1).",
            ),
            Text(
                title="代码让框架使用 CPU：{setting}",
                why="无论机器上有什么，这个脚本的训练都会留在 CPU 上。",
                fix="去掉这一行：TensorFlow 和 JAX 找到 GPU 时会自动使用（tf.config.list_physical_devices('GPU')、jax.devices()）。确实要用 CPU 时，从外部指定（JAX_PLATFORMS=cpu、CUDA_VISIBLE_DEVICES=-1）。",
            ),
        ),
        "source": (
            Text(
                title="The source itself chooses the CPU: {setting}",
                why="Whatever the machine has, this line keeps the training on the CPU.",
                fix="Choose the device by what is there: torch.device('cuda' if torch.cuda.is_available() else 'cpu'); Lightning and accelerate find the GPU by themselves (accelerator='auto').",
            ),
            Text(
                title="代码自己选择了 CPU：{setting}",
                why="无论机器上有什么，这一行都会让训练留在 CPU 上。",
                fix="按实际情况选择设备：torch.device('cuda' if torch.cuda.is_available() else 'cpu')；Lightning 和 accelerate 会自动找到 GPU（accelerator='auto'）。",
            ),
        ),
        "session": (
            Text(
                title="The ONNX Runtime session runs on {have}, although the package offers {offered}",
                why="CUDAExecutionProvider is installed, but the session does not have it: since ONNX Runtime 1.9 a session that is made without providers=[...] uses the CPU. (Where it was asked for, its libraries could not be loaded: then an error about libcublas or cuDNN stands above.)",
                fix="InferenceSession(path, providers=['CUDAExecutionProvider', 'CPUExecutionProvider']), or the program's own option for it (--execution-providers cuda, providers=...). Then session.get_providers() must begin with CUDAExecutionProvider.",
            ),
            Text(
                title="ONNX Runtime 会话用的是 {have}，而软件包提供 {offered}",
                why="已安装 CUDAExecutionProvider，但会话没有用它：自 ONNX Runtime 1.9 起，创建会话时不写 providers=[...] 就用 CPU。（若已要求却没有，则是它的库加载失败，上方会有 libcublas 或 cuDNN 的报错。）",
                fix="InferenceSession(path, providers=['CUDAExecutionProvider', 'CPUExecutionProvider'])，或使用程序自己的选项（--execution-providers cuda、providers=...）。之后 session.get_providers() 应以 CUDAExecutionProvider 开头。",
            ),
        ),
        "default": (
            Text(
                title="The program runs on the CPU unless {setting} says otherwise",
                why="Its help tells that the default is the CPU (or no GPU), and nothing shows that the option was given.",
                fix="Start it with {setting} cuda (or cuda:0; a plain switch without a value).",
            ),
            Text(
                title="除非用 {setting} 指定，否则程序在 CPU 上运行",
                why="程序的帮助说明默认是 CPU（或不用 GPU），而没有迹象表明给过这个选项。",
                fix="启动时加 {setting} cuda（或 cuda:0；若是开关则不带值）。",
            ),
        ),
        "layers": (
            Text(
                title="llama.cpp has CUDA, but was told to put no layer on the GPU (offloaded 0/{layers:*|N} layers)",
                why="The build finds the card and would use it; how many layers go there is a setting, and in many front ends it is 0 unless given{setting: (here *)}. Other names of it: n_gpu_layers (llama-cpp-python, LangChain, text-generation-webui), gpu_layers (LocalAI, ctransformers, KoboldCpp), num_gpu (Ollama's Modelfile), --n-gpu-layers or -ngl (llama.cpp's programs).",
                fix="Set it to {layers:*|99} or more (or -1 where all layers are meant so): n_gpu_layers, gpu_layers, num_gpu, --n-gpu-layers / -ngl, in the model's file or on the command line, and load the model anew; the log must then say \"offloaded N/N layers\". A value that does not arrive is often misspelt (n_gpu_layer).",
            ),
            Text(
                title="llama.cpp 带 CUDA，却被设置为不把任何层放到 GPU（offloaded 0/{layers:*|N} layers）",
                why="该构建能找到显卡并会使用它；放多少层由设置决定，许多前端不写就是 0{setting:（这里是 *）}。它的其他名字：n_gpu_layers（llama-cpp-python、LangChain、text-generation-webui）、gpu_layers（LocalAI、ctransformers、KoboldCpp）、num_gpu（Ollama 的 Modelfile）、--n-gpu-layers 或 -ngl（llama.cpp 的程序）。",
                fix="把它设为 {layers:*|99} 或更大（-1 表示全部层时可用 -1）：n_gpu_layers、gpu_layers、num_gpu、--n-gpu-layers / -ngl，写在模型文件或命令行里，再重新加载模型；日志应显示 “offloaded N/N layers”。不起作用时常是拼写错误（n_gpu_layer）。",
            ),
        ),
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
