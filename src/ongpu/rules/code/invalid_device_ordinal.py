"""The program asks for a GPU index that this process does not have."""

import ast
import re
from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.environment import Variables
from ongpu.facts.framework import Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import CUDA, Const, Device, Items, Module, Tensor, Value
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text, Words


def check(
    symptoms: Symptoms | None, gpus: Gpus | None, variables: Variables | None, torch: Torch | None, program: Program | None, traceback: Traceback | None,
) -> Iterator[Finding]:
    places = [finding for script in program.scripts for finding in _in_source(script, len(gpus.gpus) if gpus else None)] if program else []
    told = list(_in_error(symptoms, gpus, variables, torch, places, traceback)) if symptoms else []
    yield from told or places


ORDINAL = re.compile(r"(?:cuda|gpu):(\d{1,2})$", re.IGNORECASE)
TAKES_INDEX = (".cuda", "torch.cuda.set_device", "torch.cuda.device", ".to")
NAMES_DEVICE = (*TAKES_INDEX, "torch.device", "torch.load", "torch.zeros", "torch.ones", "torch.randn", "torch.rand", "torch.tensor", "torch.empty", "torch.full")


def _in_source(script: Script, present: int | None) -> Iterator[Finding]:
    """Cards beyond the first that the source names, without asking how many there are."""
    if script.says("device_count"):
        return
    for spawn in distinct(script.calls("torch.multiprocessing.spawn")):
        number = spawn.arg(2, "nprocs")
        several = isinstance(number, Const) and type(number.value) is int and number.value > 1 and script.names_cuda
        if several and isinstance(number, Const) and (present is None or present < number.value):
            yield _named(spawn, f"{number.value} GPUs", "?", Severity.ERROR if present else Severity.NOTE, "source")
            return
    asked = {index: event for event in reversed([*distinct(script.calls(*NAMES_DEVICE, "torch.nn.DataParallel"))]) for index in _indices(event)}
    shown = [e for e in script.events if e.variable == "CUDA_VISIBLE_DEVICES" and e.certain]
    given = shown[-1].value if shown and shown[-1].kind == "setitem" else shown[-1].arg(1) if shown else None
    listed = [x for x in given.value.split(",") if x.strip()] if isinstance(given, Const) and isinstance(given.value, str) else []
    most = max(asked, default=0)
    if listed and "-1" not in listed and most >= len(listed):
        yield _named(asked[most], f"cuda:{most}", f"CUDA_VISIBLE_DEVICES={given.value}", Severity.ERROR, "visible", shown[-1])  # type: ignore[union-attr]
        return
    wanted = max((int(x) for x in listed if x.strip().isdecimal() and len(x) < 4), default=0)
    event, index = (asked[most], most) if most else (shown[-1], wanted) if wanted else (None, 0)
    if event is None or index == 0 or (present is not None and present > index):
        return
    alone = bool(most) and 0 not in asked and len(asked) == 1 and not any(_plain(e) for e in script.calls(*NAMES_DEVICE))
    severity = Severity.ERROR if present else Severity.WARNING if alone else Severity.NOTE
    yield _named(event, f"cuda:{most}" if most else f"GPU {wanted}", "?", severity, "source")


def _named(event: Event, asked: str, visible: str, severity: Severity, variant: str, *others: Event) -> Finding:
    return Finding(
        subject=event.words(), certainty=Certainty.CERTAIN if severity is Severity.ERROR else Certainty.POSSIBLE, severity=severity, variant=variant,
        values={"code": event.words(60), "asked": asked, "visible": visible}, refs=(event.ref(), *(e.ref() for e in others)),
    )  # fmt: skip


def _indices(event: Event) -> list[int]:
    """The cards that a call names by number, as literals."""
    found: list[int] = []
    for value in (*event.args[:2], *((event.kw or {}).get(name) for name in ("device", "map_location", "device_ids", "output_device"))):
        found += [index for item in (value.items if isinstance(value, Items) and value.keys is None else (value,)) for index in _index(item, event)]
    if isinstance(event.node, ast.Call):
        chosen = [n for given in event.node.args[:1] if isinstance(given, ast.IfExp) for n in (given.body, given.orelse)]
        found += [int(match[1]) for n in chosen if isinstance(n, ast.Constant) and isinstance(n.value, str) and (match := ORDINAL.match(n.value))]
    return found


def _index(value: Value | None, event: Event) -> list[int]:
    if isinstance(value, Device) and value.index is not None and value.where == CUDA:
        return [value.index]
    if isinstance(value, Const) and isinstance(value.value, str) and (match := ORDINAL.match(value.value)):
        return [int(match[1])]
    number = isinstance(value, Const) and type(value.value) is int and 0 <= value.value < 64
    takes = event.name in ("torch.cuda.set_device", "torch.nn.DataParallel", ".cuda") or (event.name == ".to" and isinstance(event.receiver, Module))
    return [value.value] if number and takes and isinstance(value, Const) else []


def _plain(event: Event) -> bool:
    """Whether it takes the present card: .cuda(), "cuda"."""
    first = event.arg(0, "device")
    bare = event.name == ".cuda" and first is None and isinstance(event.receiver, Module | Tensor)
    return bare or (isinstance(first, Const) and first.value == "cuda")


def _in_error(
    symptoms: Symptoms, gpus: Gpus | None, variables: Variables | None, torch: Torch | None, places: list[Finding], traceback: Traceback | None,
) -> Iterator[Finding]:
    hits = symptoms.seen("invalid-ordinal")
    if not hits or symptoms.has("ordinal-no-gpu", "map-location"):
        return
    tf = [hit for hit in hits if hit.groups.get("tf")]
    if not [h for h in hits if not h.groups.get("tf")] and not any("GPU:0" in h.ref.quote for h in symptoms.seen("tf-gpu0-only")):
        return  # TensorFlow that names no GPU at all: another cause
    present = len(gpus.gpus) if gpus and gpus.gpus else torch.device_count if torch else None
    visible = variables.get("CUDA_VISIBLE_DEVICES") if variables else None
    option = next((f"{h.groups['option']} {h.groups['list']}" for h in symptoms.seen("ordinal-option") if re.search(r"[1-9]", h.groups["list"])), None)
    asked = (tf[0].groups["tf"] if tf else None) or symptoms.value("n", "gpu-requested")
    yield Finding(
            fixes=(Fix("list-gpus"),),
        certainty=Certainty.CERTAIN if present or visible or tf else Certainty.LIKELY,
        variant="mig" if symptoms.has("mig-words") else "",
        values={
            "asked": asked if asked and asked != "0" else option or "a GPU index", "present": present or "?", "visible": _shown(visible, variables),
        },
        refs=(
            *(hit.ref for hit in hits[:3]), *(variables.cite("CUDA_VISIBLE_DEVICES") if variables else ()), *(gpus.cite(*gpus.gpus[:4]) if gpus else ()),
            *symptoms.cite("gpu-requested", "ordinal-option", most=2), *(ref for place in places[:1] for ref in place.refs),
            *(raised.cite()[1:] if traceback and (raised := traceback.said("ordinal", "invalid device", "invalid gpu")) else ()),
        ),
    )


def _shown(visible: str | None, variables: Variables | None) -> str | Words:
    """The variable's value; unknown where nobody showed the environment."""
    if visible is None:
        return Words("not set", "未设置") if variables and variables.complete else "?"
    return visible or '""'


RULE = Rule(
    slug="invalid-device-ordinal",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable", "config-forces-cpu"),
    see=("https://docs.pytorch.org/docs/stable/notes/cuda.html",),
    en=Text(
        title="The program asks for {asked}, which this process does not have{present:; GPUs here: *|}{visible:; CUDA_VISIBLE_DEVICES: *|}",
        why="Indices count from 0 over the GPUs that the process may see: with one card only GPU 0 (cuda:0) exists, and CUDA_VISIBLE_DEVICES=2 makes card 2 \"cuda:0\". A script or checkpoint written for more cards, --nproc_per_node above the number of cards, or a fixed \"cuda:1\" asks for one that is not there.",
        fix="Use cuda:0 (or plain \"cuda\"), a list of devices that torch.cuda.device_count() covers, as many processes as nvidia-smi -L lists GPUs, and the program's single-GPU setting; correct or unset CUDA_VISIBLE_DEVICES.",
    ),
    zh=Text(
        title="程序要用的 {asked} 在本进程中不存在{present:；GPU 数：*|}{visible:；CUDA_VISIBLE_DEVICES：*|}",
        why="编号从 0 开始，只数本进程可见的 GPU：只有一块卡时只有 GPU 0（cuda:0）；CUDA_VISIBLE_DEVICES=2 会让 2 号卡成为“cuda:0”。为多卡写的脚本或检查点、--nproc_per_node 大于卡数、写死的“cuda:1”都会请求不存在的卡。",
        fix="使用 cuda:0（或只写“cuda”），设备列表不超过 torch.cuda.device_count()，进程数不超过 nvidia-smi -L 列出的 GPU 数，选程序的单卡设置；修正或取消 CUDA_VISIBLE_DEVICES。",
    ),
    variants={
        "source": (
            Text(
                title="{code} wants {asked}, whatever the machine has",
                why="Cards are counted from 0, so with one GPU only cuda:0 exists; then this line fails with \"invalid device ordinal\".",
                fix="Plain \"cuda\" and CUDA_VISIBLE_DEVICES from outside choose the card; or ask torch.cuda.device_count() first, or take the number as an argument.",
            ),
            Text(
                title="{code} 固定要用 {asked}，不管机器上有什么",
                why="显卡从 0 开始编号，只有一块 GPU 时仅有 cuda:0，这一行就会报“invalid device ordinal”。",
                fix="代码里只写“cuda”，用外部的 CUDA_VISIBLE_DEVICES 选卡；或先问 torch.cuda.device_count()，或把编号做成参数。",
            ),
        ),
        "visible": (
            Text(
                title="{code} wants {asked}, but the source itself leaves fewer cards visible ({visible})",
                why="The visible cards are numbered anew from 0: with one card in CUDA_VISIBLE_DEVICES only cuda:0 exists, whatever its number outside. This line fails with \"invalid device ordinal\".",
                fix="Use cuda:0 (the first of the list), or list more cards.",
            ),
            Text(
                title="{code} 要用 {asked}，而代码自己只让较少的显卡可见（{visible}）",
                why="可见的显卡会从 0 重新编号：CUDA_VISIBLE_DEVICES 只有一块卡时仅有 cuda:0，不论它在外面是几号。这一行会报“invalid device ordinal”。",
                fix="改用 cuda:0（列表中的第一块），或多列几块卡。",
            ),
        ),
        "mig": (
            Text(
                title="The program asks for {asked}, but a process can open only one MIG slice{present:; GPUs here: *|}",
                why="Several MIG instances may be granted to the job, yet CUDA shows a single MIG instance (the first of CUDA_VISIBLE_DEVICES) to each process, so only cuda:0 exists. The batch system did nothing wrong.",
                fix="Start one process for each slice, each with its own CUDA_VISIBLE_DEVICES=MIG-<uuid> (nvidia-smi -L), or ask for whole GPUs; use cuda:0 in the program.",
            ),
            Text(
                title="程序要用的 {asked} 不存在：一个进程只能打开一个 MIG 切片{present:；GPU 数：*|}",
                why="作业可能分到多个 MIG 实例，但 CUDA 对每个进程只显示一个 MIG 实例（CUDA_VISIBLE_DEVICES 中的第一个），因此只有 cuda:0。作业系统没有分错。",
                fix="每个切片启动一个进程，各自设置 CUDA_VISIBLE_DEVICES=MIG-<uuid>（nvidia-smi -L 查看），或申请整块 GPU；程序里用 cuda:0。",
            ),
        ),
    },
)
