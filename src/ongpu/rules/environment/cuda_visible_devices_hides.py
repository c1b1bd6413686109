"""CUDA_VISIBLE_DEVICES (or its kin) hides the GPUs from the program."""

import re
from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.framework import Jax, OnnxRuntime, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.intent import on_purpose
from ongpu.facts.program import Event, Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.traced import jax_steps, meant, tf_steps
from ongpu.facts.values import CUDA, MAYBE, Const, Module, Tensor
from ongpu.facts.visible import blind
from ongpu.lazy import lazy, replace
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

_NAMES = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "NVIDIA_VISIBLE_DEVICES",
)
_NOTHING = lazy(r"^(?:-1|none|void|nodevfiles|null|no|false|-|\[\]|-1,.*)$", re.IGNORECASE)
# What people write where an index belongs: a word, a placeholder that was left as it stood ("$0", which a shell turns into its own name,
# "<gpu>", "[0]", "GPU_ID"), an index in quotes or brackets. "$1" and "${GPU}" are values of a script.
_WORD = lazy(r"(?:cuda|gpu):?\d|all$|true$|auto$|\$0$|-?(?:ba|z|da)?sh$|[<\[({].*[>\])}]$|(?:your_)?(?:gpu|device|cuda)s?(?:[_-]?(?:ids?|num|number|index|idx|list|x))?$|[a-z]$", re.IGNORECASE)
_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "eight": 8}


def check(
    variables: Variables | None,
    symptoms: Symptoms | None,
    torch: Torch | None,
    flow: TensorFlow | None,
    jax: Jax | None,
    onnx: OnnxRuntime | None,
    gpus: Gpus | None,
    program: Program | None,
) -> Iterator[Finding]:
    yield from (finding for script in program.scripts for finding in _in_source(script)) if program else ()
    missed = (
        *blind(symptoms, torch, flow, jax, onnx),
        *(
            symptoms.cite("no-gpu-complaint", "cuda-requested-unavailable", "no-cuda-device", most=2)
            if symptoms
            else ()
        ),
    )
    name, value, lines = _setting(variables, symptoms)
    if name is None or value is None:
        return
    if name == "NVIDIA_VISIBLE_DEVICES" and value != "void" and value != "none":
        return
    listed = [g.index for g in gpus.gpus if g.index is not None] if gpus else []
    count, told = len(listed) or None, gpus.cite()[:3] if gpus and listed else ()
    if count is None and symptoms and symptoms.has("one-gpu-told"):
        count, told = 1, symptoms.cite("one-gpu-told", most=2)
    if count is None and symptoms and (number := symptoms.value("n", "gpu-count-told")):
        count, told = (
            int(number) if number.isdigit() else _NUMBERS.get(number.lower()),
            symptoms.cite("gpu-count-told", most=1),
        )
    if value.strip().strip("\"'") == "" or _NOTHING.match(value.strip()):
        if value.strip() == "" and not (
            missed or (symptoms and symptoms.has("tf-hides-note")) or (variables and variables.complete)
        ):
            return  # told to be empty or unset: `echo` prints the same for both; the live environment does not
        if not missed and symptoms and symptoms.has("tf-devices-with-gpu", "harmless-tf-using-gpu"):
            return  # a run on the CPU beside one on the GPU, on purpose
        if on_purpose(symptoms) or (symptoms and symptoms.has("cpu-wanted")):
            yield replace(_finding("", name, value or "(empty)", Certainty.LIKELY, (*lines, *missed)), severity=Severity.NOTE)
            return
        yield _finding(
            "", name, value or "(empty)", Certainty.CERTAIN if missed else Certainty.LIKELY, (*lines, *missed)
        )
        return
    indices = [int(x) for x in re.findall(r"(?<![\w-])\d+(?![\w-])", value)] if re.fullmatch(r"[\d,\s]+", value) else []
    if len(indices) == 1 and indices[0] > 0 and not missed and symptoms and symptoms.has("renumbered") and (count is None or indices[0] < count):
        yield replace(_finding("renumbered", name, value, Certainty.CERTAIN, (*lines, *symptoms.cite("renumbered", most=2))), severity=Severity.NOTE, fixes=())
    elif indices and count is not None and indices[0] >= count:
        likely = Certainty.CERTAIN if missed and listed else Certainty.LIKELY
        yield _finding("index", name, value, likely, (*lines, *told, *missed), count)
    elif indices and count is not None and any(i >= count for i in indices) and missed:
        yield _finding("index", name, value, Certainty.LIKELY, (*lines, *told, *missed), count)
    elif (
        re.match(r"(?:GPU|MIG)-[\w-]+", value) and gpus and any(g.uuid for g in gpus.gpus) and value.startswith("GPU-")
    ):
        first = value.split(",")[0].strip()
        if not any((g.uuid or "").startswith(first) for g in gpus.gpus):
            yield _finding(
                "uuid", name, value, Certainty.CERTAIN if missed else Certainty.LIKELY, (*lines, *told, *missed), count
            )
    elif indices and indices[0] > 0 and count is None and missed:
        yield _finding(
            "maybe",
            name,
            value,
            Certainty.LIKELY
            if symptoms and symptoms.has("no-gpu-complaint") and not (torch and torch.cuda == "")
            else Certainty.POSSIBLE,
            (*lines, *missed),
        )
    elif (
        _WORD.match(value)
        and missed
        and name == "CUDA_VISIBLE_DEVICES"
    ):
        yield _finding("form", name, value, Certainty.LIKELY, (*lines, *missed))


def _in_source(script: Script) -> Iterator[Finding]:
    """An assignment to os.environ that hides all GPUs from a script which then asks for one."""
    sets = [e for e in script.events if e.variable == "CUDA_VISIBLE_DEVICES"]
    last = sets[-1] if sets else None
    given = (last.value if last.kind == "setitem" else last.arg(1)) if last else None
    if last is None or not isinstance(given, Const) or not isinstance(given.value, str) or not last.certain or last.at.frame.kind != "script":
        return
    value = given.value.strip()
    if value and not _NOTHING.match(value):
        return
    used = next((e for e in script.events if last.before(e) and _asks(e)), None)
    used = used or next((e for e in (*tf_steps(script), *jax_steps(script)) if last.order < e.order), None)
    if used is not None:
        sure = used.name == ".cuda" or (isinstance(used.value, Tensor | Module) and _placed(used) == CUDA)
        yield Finding(
            certainty=Certainty.LIKELY, severity=None if sure else Severity.NOTE if meant(last) else Severity.WARNING, variant="source", subject=last.words(),
            values={"name": "CUDA_VISIBLE_DEVICES", "value": value or "(empty)", "used": used.words(60)}, refs=(last.ref(), used.ref()),
        )


def _placed(event: Event) -> str:
    moved = event.receiver if isinstance(event.receiver, Module) else None
    if moved is not None:
        return next((m.device.where for m in moved.moves or () if m.event is event), "")
    return event.value.where if isinstance(event.value, Tensor) else ""


def _asks(event: Event) -> bool:
    """Whether that call puts something on CUDA."""
    return event.kind == "call" and event.name in (".to", ".cuda") and not any(g.kind == "cuda" for g in event.at.guards) and _placed(event) in (CUDA, MAYBE)


def _setting(variables: Variables | None, symptoms: Symptoms | None) -> tuple[str | None, str | None, tuple[Ref, ...]]:
    for name in _NAMES:
        if variables and (value := variables.get(name)) is not None and (value == "$0" or not value.startswith(("$", "%", "{"))):
            return name, value, variables.cite(name)
    if symptoms and symptoms.has("tf-hides-note"):
        value = (
            symptoms.value("value", "tf-hides-note")
            or symptoms.value("value2", "tf-hides-note")
            or symptoms.value("env", "tf-hides-note")
        )
        if value is None:
            value = ""
        return "CUDA_VISIBLE_DEVICES", "" if value in ("empty", '""') else value, symptoms.cite("tf-hides-note")
    return None, None, ()


def _finding(
    variant: str, name: str, value: str, certainty: Certainty, refs: tuple[Ref, ...], count: int | None = None
) -> Finding:
    last = max(0, (count or 1) - 1)
    return Finding(
        variant=variant,
        certainty=certainty,
        fixes=(Fix("unset-visible-devices", {"name": name}),),
        refs=refs,
        values={"name": name, "value": value, "count": count if count is not None else "?", "last": last},
    )


RULE = Rule(
    slug="cuda-visible-devices-hides",
    layer=Layer.ENVIRONMENT,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable", "invalid-device-ordinal", "driver-not-installed", "gpu-not-on-bus", "no-nvidia-gpu"),
    settle=('echo "[$CUDA_VISIBLE_DEVICES]"; nvidia-smi -L',),
    see=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables",),
    en=Text(
        title="{name}={value} hides every GPU from the program",
        why="CUDA shows a process only the devices that {name} lists, up to the first that does not exist. The value {value} lists none; nvidia-smi ignores the variable and still shows the cards.",
        fix="Unset {name}, or set it to the index of a GPU (CUDA_VISIBLE_DEVICES=0), where it is set: the shell's start files, the launch script, the notebook, the service or the code (os.environ) before the framework is imported.",
    ),
    zh=Text(
        title="{name}={value} 对程序隐藏了所有 GPU",
        why="CUDA 只让进程看到 {name} 列出的设备，遇到第一个不存在的就停止。取值 {value} 一个也没列出；nvidia-smi 不理会该变量，照样显示显卡。",
        fix="取消 {name}，或把它设为某块 GPU 的编号（CUDA_VISIBLE_DEVICES=0）。设置的地方可能是 shell 启动文件、启动脚本、notebook、服务，或代码里导入框架之前的 os.environ。",
    ),
    variants={
        "source": (
            Text(
                title="The source itself hides all GPUs ({name}={value}), and then asks for one: {used}",
                why="The value {value} lists no device, so torch.cuda.is_available() is False in this process: what asks for CUDA by name fails, what asks politely stays on the CPU. Such a line is often left over from debugging.",
                fix="Remove the line, or name a card: os.environ['CUDA_VISIBLE_DEVICES'] = '0', before the framework is imported.",
            ),
            Text(
                title="源代码自己隐藏了所有 GPU（{name}={value}），随后又要用：{used}",
                why="取值 {value} 一个设备也没列出，该进程中 torch.cuda.is_available() 为 False：直接指定 CUDA 的会报错，先询问的则留在 CPU。这样的一行常是调试后忘了删。",
                fix="删掉这一行，或写明显卡：在导入框架之前 os.environ['CUDA_VISIBLE_DEVICES'] = '0'。",
            ),
        ),
        "renumbered": (
            Text(
                title="{name}={value}: inside the process that GPU is number 0, as it should be",
                why="The process sees only the GPUs that {name} names, and counts them from 0. So cuda:0, GPU 0 or device 0 in its output is GPU {value} of the machine: nothing is wrong.",
                fix="Nothing to do. In the code use cuda:0; nvidia-smi goes on showing it as GPU {value} (with CUDA_DEVICE_ORDER=PCI_BUS_ID where the cards differ).",
            ),
            Text(
                title="{name}={value}：进程内该 GPU 的编号是 0，这是正常的",
                why="进程只能看到 {name} 列出的 GPU，并从 0 开始编号。因此输出中的 cuda:0、GPU 0、device 0 就是机器上的 GPU {value}，没有问题。",
                fix="无需处理。代码中写 cuda:0；nvidia-smi 仍显示为 GPU {value}（显卡型号不同时请设 CUDA_DEVICE_ORDER=PCI_BUS_ID）。",
            ),
        ),
        "index": (
            Text(
                title="{name}={value} asks for a GPU that does not exist: there are {count} (highest index {last})",
                why="An index that does not exist ends the list: all from there on, here all devices, are hidden. Scripts written for a machine with more GPUs bring such a line.",
                fix="Set {name}=0 (at most {last}) in the script or shell that sets it, or remove the line.",
            ),
            Text(
                title="{name}={value} 指定了不存在的 GPU：一共 {count} 块（最大编号 {last}）",
                why="列表遇到不存在的编号就终止，其后的（此处为全部）设备都被隐藏。为多 GPU 机器写的脚本常带这样一行。",
                fix="在设置它的脚本或 shell 中改为 {name}=0（最大 {last}），或删掉这一行。",
            ),
        ),
        "uuid": (
            Text(
                title="{name}={value} names a UUID that no listed GPU has",
                why="A UUID from another machine, or of a card or MIG instance that was replaced, matches nothing, and so no device is visible.",
                fix="Take the UUID from nvidia-smi -L, or use the index (0).",
            ),
            Text(
                title="{name}={value} 中的 UUID 与列出的任何 GPU 都不符",
                why="来自其他机器、或已更换的显卡 / MIG 实例的 UUID 匹配不到任何设备，于是一个都看不见。",
                fix="用 nvidia-smi -L 查看正确的 UUID，或直接用编号（0）。",
            ),
        ),
        "maybe": (
            Text(
                title="{name}={value} may name a GPU that this machine does not have",
                why="The program sees no GPU and {name} selects {value}. On a machine with fewer GPUs that index does not exist and all devices are hidden.",
                fix="Set {name}=0 (nvidia-smi -L shows the indices that exist), or remove the setting.",
            ),
            Text(
                title="{name}={value} 可能指定了这台机器没有的 GPU",
                why="程序看不到 GPU，而 {name} 选择了 {value}。GPU 较少的机器上没有这个编号，所有设备都会被隐藏。",
                fix="改为 {name}=0（nvidia-smi -L 可查看存在的编号），或去掉该设置。",
            ),
        ),
        "form": (
            Text(
                title="{name}={value} is not a value that CUDA understands",
                why="{name} takes indices (0,1) or UUIDs (GPU-...); anything else (cuda:0, all, a placeholder, $0, which the shell turns into its own name) matches no device, so all are hidden.",
                fix="Set {name}=0, or unset it.",
            ),
            Text(
                title="CUDA 不认识 {name}={value} 这种写法",
                why="{name} 只接受编号（0,1）或 UUID（GPU-...）；其他写法（cuda:0、all、占位符，或会被 shell 换成自己名字的 $0）匹配不到设备，结果全部被隐藏。",
                fix="设为 {name}=0，或取消该变量。",
            ),
        ),
    },
)
