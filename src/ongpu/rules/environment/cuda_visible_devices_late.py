"""CUDA_VISIBLE_DEVICES is set after CUDA was initialised, and so has no effect."""

from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.framework import Torch
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(variables: Variables | None, symptoms: Symptoms | None, torch: Torch | None) -> Iterator[Finding]:
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
