"""CUDA_VISIBLE_DEVICES is set after CUDA was initialised, and so has no effect."""

import ast
from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.framework import Torch
from ongpu.facts.program import Event, Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import CUDA, MAYBE, Const, Module, Tensor
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(variables: Variables | None, symptoms: Symptoms | None, torch: Torch | None, program: Program | None) -> Iterator[Finding]:
    yield from (finding for script in program.scripts for finding in _in_source(script)) if program else ()
    if program and symptoms and symptoms.has("visible-devices-told", "one-device-set"):
        yield from (finding for script in program.scripts for finding in _after_import(script, symptoms))
    late = variables.set_late if variables else ()
    told = symptoms.cite("late-visible-hint") if symptoms else ()
    value = variables.get("CUDA_VISIBLE_DEVICES") if variables else None
    imported = variables.set_after_import if variables else ()
    if not late and imported and value:
        wanted = len([item for item in value.split(",") if item.strip() and item.strip() != "-1"])
        shown = symptoms.seen("many-devices-line") if symptoms else ()
        count = max(len({hit.groups.get("n") for hit in shown}), (torch.device_count or 0) if torch else 0)
        if wanted < count:
            refs = (*imported, *(hit.ref for hit in shown[:3]), *(torch.about("device_count") if torch and not shown else ()))
            yield Finding(
                certainty=Certainty.LIKELY,
                variant="import",
                values={"value": value, "count": count, "line": imported[0].quote.strip()},
                refs=refs,
            )
            return
    if not late and not told:
        return
    yield Finding(
        certainty=Certainty.CERTAIN if late and told else Certainty.LIKELY,
        severity=Severity.WARNING if late and not told else None,
        values={"value": value or "?", "call": late[0].quote if late else "import torch"},
        variant="" if late else "told",
        refs=(*late, *told, *(variables.cite("CUDA_VISIBLE_DEVICES") if variables else ())),
    )


# Calls after which the driver has read the variable: they count devices, or put something on one.
STARTS = (
    "torch.cuda.is_available", "torch.cuda.device_count", "torch.cuda.init", "torch.cuda.current_device", "torch.cuda.set_device",
    "torch.cuda.get_device_name", "torch.cuda.get_device_properties", "torch.cuda.get_device_capability", "torch.cuda.synchronize",
    "tensorflow.config.list_physical_devices", "tensorflow.config.experimental.list_physical_devices", "tensorflow.test.is_gpu_available",
    "tensorflow.test.gpu_device_name", "tensorflow.config.list_logical_devices", "jax.devices", "jax.local_devices", "jax.device_count",
)  # fmt: skip


def _in_source(script: Script) -> Iterator[Finding]:
    """An assignment after something that started CUDA in the same run."""
    sets = [event for event in script.events if event.variable == "CUDA_VISIBLE_DEVICES"]
    for event in sets:
        if any(frame.alone for frame in event.at.frame.chain()):
            continue
        first = next((e for e in script.events if e.before(event) and _starts(e)), None)
        given = event.variable_value
        if first is not None and any(other.node is event.node and other.before(first) for other in sets):
            continue  # the same line ran in time: its function is called more than once
        if first is not None and first.at.guards == event.at.guards[: len(first.at.guards)]:
            yield Finding(
                variant="source",
                certainty=Certainty.LIKELY,
                values={"value": str(given.value) if isinstance(given, Const) else "?", "call": first.words(60), "line": event.line},
                refs=(event.ref(), first.ref()),
            )
            return


def _after_import(script: Script, symptoms: Symptoms) -> Iterator[Finding]:
    """An assignment below the framework's import, where the words beside the program tell that the shell's own setting works."""
    for event in script.of("setitem"):
        name = event.args[0] if event.args else None
        if event.name != "os.environ" or not isinstance(name, Const) or name.value != "CUDA_VISIBLE_DEVICES" or event.at.frame.kind != "script":
            continue
        above = [s for s in script.tree.body if isinstance(s, ast.Import | ast.ImportFrom) and s.lineno < event.node.lineno and _framework(s)]
        value = event.value.value if isinstance(event.value, Const) else "?"
        if above:
            refs = (event.ref(), script.file.ref(above[0]), *symptoms.cite("visible-devices-told", most=1))
            yield Finding(certainty=Certainty.LIKELY, variant="told", values={"value": str(value)}, refs=refs)
            return


def _framework(node: ast.Import | ast.ImportFrom) -> bool:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return any(name.partition(".")[0] in ("torch", "tensorflow", "jax", "keras", "lightning", "pytorch_lightning", "transformers", "mmcv") for name in names)


def _starts(event: Event) -> bool:
    if event.name in STARTS:
        return True
    if event.name in (".cuda", ".to"):
        return (isinstance(event.value, Tensor) and event.value.where in (CUDA, MAYBE)) or (isinstance(event.receiver, Module) and event.name == ".cuda")
    return event.kind == "call" and event.name.startswith("torch.") and isinstance(event.value, Tensor) and event.value.where == CUDA


RULE = Rule(
    slug="cuda-visible-devices-late",
    layer=Layer.ENVIRONMENT,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-device-order", "invalid-device-ordinal"),
    see=("https://pytorch.org/docs/stable/notes/cuda.html", "https://github.com/pytorch/pytorch/issues/23544"),
    en=Text(
        title="CUDA_VISIBLE_DEVICES={value} is set after CUDA was initialised ({call})",
        why="The CUDA driver reads CUDA_VISIBLE_DEVICES once, at the first CUDA call of the process. A call before that line (is_available, device_count, .cuda(), or an import that does so) fixes the list; the later setting changes nothing, and the work lands on GPU 0.",
        fix="Set it before the first CUDA call, best on the command line (CUDA_VISIBLE_DEVICES={value} python ...) or in the first lines before import torch; or leave it and choose the device with torch.cuda.set_device / torch.device('cuda:N').",
    ),
    zh=Text(
        title="CUDA_VISIBLE_DEVICES={value} 是在 CUDA 初始化之后才设置的（{call}）",
        why="CUDA 驱动只在进程第一次 CUDA 调用时读取 CUDA_VISIBLE_DEVICES。在那一行之前的调用（is_available、device_count、.cuda()，或会这样做的 import）已把设备列表定下，之后再设置不起作用，计算会落到 GPU 0。",
        fix="在第一次 CUDA 调用之前设置，最好写在命令行（CUDA_VISIBLE_DEVICES={value} python ...）或 import torch 之前的最前几行；或者不设它，改用 torch.cuda.set_device / torch.device('cuda:N') 选择设备。",
    ),
    variants={
        "source": (
            Text(
                title="CUDA_VISIBLE_DEVICES{value:=*|} is set after {call} has started CUDA: it has no effect any more",
                why="The CUDA driver reads the variable once, when it starts; counting devices or asking whether there is one is enough. The program goes on with the GPUs that it saw then.",
                fix="Set it before the first CUDA call: on the command line (CUDA_VISIBLE_DEVICES=N python ...), or at the very top, above import torch; or choose with torch.cuda.set_device or a device object.",
            ),
            Text(
                title="CUDA_VISIBLE_DEVICES{value:=*|} 在 {call} 启动 CUDA 之后才设置：已不起作用",
                why="CUDA 驱动只在启动时读取一次该变量；统计设备、询问是否有设备就已算启动。程序会继续使用当时看到的 GPU。",
                fix="在第一次 CUDA 调用之前设置：写在命令行（CUDA_VISIBLE_DEVICES=N python ...），或放在最上方、import torch 之前；或用 torch.cuda.set_device、device 对象选择。",
            ),
        ),
        "import": (
            Text(
                title="CUDA_VISIBLE_DEVICES={value} is set after `{line}`, and the program still sees {count} GPUs",
                why="The variable is read once, when CUDA starts. Something that was imported before the assignment started CUDA (or an older torch counted the devices on import), so the later value is ignored.",
                fix="Set it before the program starts (CUDA_VISIBLE_DEVICES={value} python train.py), or move the assignment (and CUDA_DEVICE_ORDER) above import torch and every other import.",
            ),
            Text(
                title="CUDA_VISIBLE_DEVICES={value} 设置在 `{line}` 之后，程序仍看到 {count} 块 GPU",
                why="该变量只在 CUDA 启动时读取一次。赋值之前导入的东西已经启动了 CUDA（或旧版 torch 在 import 时就统计了设备），之后的值被忽略。",
                fix="在启动程序前设置（CUDA_VISIBLE_DEVICES={value} python train.py），或把赋值（连同 CUDA_DEVICE_ORDER）移到 import torch 及其他 import 之前。",
            ),
        ),
        "told": (
            Text(
                title="CUDA_VISIBLE_DEVICES ({value}) has no effect: it is set too late in the process",
                why="The CUDA driver reads the variable once, at the first CUDA call. Setting it in code after an import or call that initialised CUDA changes nothing.",
                fix="Set it before the first CUDA call: on the command line (CUDA_VISIBLE_DEVICES=N python ...), or at the very top before the framework is imported; or select with torch.cuda.set_device.",
            ),
            Text(
                title="CUDA_VISIBLE_DEVICES（{value}）不起作用：设置得太晚",
                why="CUDA 驱动只在第一次 CUDA 调用时读取该变量。在已初始化 CUDA 的 import 或调用之后再用代码设置，不会有任何变化。",
                fix="在第一次 CUDA 调用之前设置：写在命令行（CUDA_VISIBLE_DEVICES=N python ...），或在导入框架之前的最上方；或改用 torch.cuda.set_device 选择。",
            ),
        ),
    },
)
