"""CUDA numbers the GPUs in another order than nvidia-smi."""

import ast
import re
from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.hardware import Gpus
from ongpu.facts.program import Event, Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.traced import called
from ongpu.facts.values import Const, Tensor
from ongpu.lazy import replace
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text


def _model(name: str) -> str:
    """The model alone: "rtx 2080" of "NVIDIA GeForce RTX 2080"."""
    return re.sub(r"nvidia|geforce|tesla|quadro", "", name.lower()).strip()


def _other_way(symptoms: Symptoms, gpus: Gpus) -> tuple[Ref, ...]:
    """The lines in which a program lists, by CUDA's numbers, the very cards that nvidia-smi lists, in another order."""
    smi = {g.index: _model(g.name) for g in gpus.gpus if g.name and g.index is not None}
    cuda: dict[int, tuple[str, Ref]] = {}
    for hit in symptoms.seen("cuda-listed-card"):
        index = int(next(hit.groups[key] for key in ("index", "index2", "index3") if hit.groups.get(key)))
        cuda.setdefault(index, (_model(hit.groups.get("name") or ""), hit.ref))
    order = {index: name for index, (name, _) in cuda.items()}
    same = len(smi) > 1 and order.keys() == smi.keys() and sorted(order.values()) == sorted(smi.values())
    return tuple(ref for _, ref in cuda.values())[:4] if same and order != smi else ()


LISTS = ("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByIndex_v2", "getAvailable", "getFirstAvailable", "getGPUs", "new_query")
RUNS = ("check_output", "run", "Popen", "getoutput", "popen", "system")


def _in_source(script: Script) -> Iterator[Finding]:
    """A card that is chosen by nvidia-smi's (NVML's) numbers and then asked for by CUDA's."""
    if script.says("CUDA_DEVICE_ORDER", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetUUID", "nvmlDeviceGetHandleByPciBusId"):
        return
    if not script.says("pynvml", "nvidia-smi", "GPUtil", "gpustat", "py3nvml"):
        return
    listing = next((node for node in ast.walk(script.tree) if _lists(node)), None)
    if not isinstance(listing, ast.Call):
        return
    told = _depending(script.tree)
    for event in script.events:
        number = event.arg(0, "device")
        picked = event.name in ("torch.cuda.set_device", "torch.device", ".cuda", ".to") and isinstance(event.node, ast.Call) and _computed(event, number) and _mentions(event.call, told)
        visible = event.kind == "setitem" and event.variable == "CUDA_VISIBLE_DEVICES"
        if not picked and not (visible and not isinstance(event.value, Const)):
            continue
        yield Finding(
            subject=event.words(), certainty=Certainty.POSSIBLE, severity=Severity.NOTE if visible else None, variant="source",
            values={"code": event.words(60), "listed": script.file.quote(listing, 60)}, refs=(event.ref(), script.file.ref(listing)),
        )  # fmt: skip
        return


def _lists(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and (called(node) in LISTS or (called(node) in RUNS and "nvidia-smi" in ast.unparse(node)))


def _mentions(node: ast.AST, names: set[str]) -> bool:
    """Whether one of these names, or a listing itself, stands in that part."""
    parts = list(ast.walk(node))
    return any(_lists(n) or (isinstance(n, ast.Name) and n.id in names) or (isinstance(n, ast.Attribute) and n.attr in names) for n in parts)


def _depending(tree: ast.AST) -> set[str]:
    """The names that get their values from a listing: functions that hold one, what is assigned from them, in loops over them, under
    conditions on them."""
    names: set[str] = set()
    for _ in range(6):  # from name to name
        before = len(names)
        for node in ast.walk(tree):
            source: ast.AST | None = getattr(node, "value", None) if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) else None
            source = node.iter if isinstance(node, ast.For) else node.test if isinstance(node, ast.If | ast.While) else source
            if isinstance(node, ast.FunctionDef):
                names |= {node.name} if _mentions(node, names) else set()
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
                changed = node.value.func.value  # free.append(...)
                names |= {changed.id} if isinstance(changed, ast.Name) and _mentions(node.value, names) else set()
            elif source is not None and _mentions(source, names):
                bound = [n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Store)]
                names |= {n.id if isinstance(n, ast.Name) else n.attr for n in bound}
        if len(names) == before:
            break
    return names


def _computed(event: Event, number: object) -> bool:
    """Whether the card's number is computed, and not the process's own rank."""
    given = event.given(0, "device")
    words = ast.unparse(given).lower() if given is not None else ""
    if "rank" in words or "args" in words or isinstance(number, Const):
        return False
    if event.name in ("torch.cuda.set_device", ".cuda"):
        return bool(words) and not isinstance(number, Tensor)
    return isinstance(given, ast.JoinedStr | ast.BinOp) or (isinstance(given, ast.Call) and words.startswith("'cuda:{}'"))


def check(variables: Variables | None, gpus: Gpus | None, symptoms: Symptoms | None, program: Program | None) -> Iterator[Finding]:
    cards = {g.name for g in gpus.gpus if g.name} if gpus else set()
    for finding in [f for script in program.scripts for f in _in_source(script)] if program and not variables else ():
        yield replace(finding, severity=None, certainty=Certainty.LIKELY) if len(cards) > 1 else finding
    order = variables.get("CUDA_DEVICE_ORDER") if variables else None
    if order == "PCI_BUS_ID" and not (symptoms and symptoms.has("order-fixed")):
        return
    names = list(dict.fromkeys(g.name for g in gpus.gpus if g.name)) if gpus else []
    if gpus and len(gpus.gpus) == 1 and gpus.gpus[0].index == 0:  # one card cannot be taken for another
        return
    if gpus and not names and len(gpus.names) > 1:
        names = list(dict.fromkeys(gpus.names))
    hint = symptoms.cite("device-order-hint") if symptoms else ()
    visible = variables.get("CUDA_VISIBLE_DEVICES") if variables else None
    several = bool(symptoms and symptoms.has("different-cards"))
    mixed = len(names) > 1 or several
    first = symptoms.value("name", "torch-first-card") if symptoms else None
    listed = next((g.name for g in gpus.gpus if g.index == 0 and g.name), None) if gpus else None
    listed = listed or (symptoms.value("name", "smi-first-card") if symptoms else None)
    others = [_model(name) for name in names]
    if first and listed and _model(first) != _model(listed) and _model(first) in others and symptoms and not (visible or "").strip():
        yield Finding(
            certainty=Certainty.LIKELY,
            values={"cards": names, "visible": "?"},
            fixes=(Fix("pci-bus-order"),),
            refs=(*symptoms.cite("torch-first-card", "smi-first-card", most=2), *(gpus.cite()[:4] if gpus else ())),
        )
        return
    if symptoms and gpus and not (visible or "").strip() and (lines := _other_way(symptoms, gpus)):
        yield Finding(certainty=Certainty.LIKELY, values={"cards": names, "visible": "?"}, fixes=(Fix("pci-bus-order"),), refs=(*lines, *gpus.cite()[:4]))
        return
    if symptoms and symptoms.has("visible-but-other") and (mixed or visible or hint) and not (variables and variables.set_late):
        hint = (*symptoms.cite("visible-but-other", most=2), *symptoms.cite("different-cards", most=1), *hint)
        if not (mixed and (visible or symptoms.has("device-order-hint"))) and len(hint) < 2:
            mixed = mixed and not visible
    if not hint and not (mixed and visible and visible.strip() not in ("", "-1")):
        return
    if hint and not mixed and not visible and symptoms and not symptoms.value("what", "device-order-hint"):
        return
    yield Finding(
        certainty=Certainty.LIKELY if hint and (mixed or visible or order == "FASTEST_FIRST") else Certainty.POSSIBLE,
        severity=None if hint else Severity.NOTE,
        values={"cards": names or "?", "visible": visible or "?"},
        fixes=(Fix("pci-bus-order"),),
        refs=(
            *hint,
            *(variables.cite("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES") if variables else ()),
            *(gpus.cite()[:4] if gpus else ()),
        ),
    )


RULE = Rule(
    slug="cuda-device-order",
    layer=Layer.ENVIRONMENT,
    severity=Severity.WARNING,
    check=check,
    settle=(
        "nvidia-smi -L",
        "python -c 'import torch; print([torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())])'",
    ),
    see=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables",),
    en=Text(
        title="CUDA numbers these GPUs in another order than nvidia-smi{cards: (*)}{visible: (CUDA_VISIBLE_DEVICES=*)}",
        why="nvidia-smi sorts by PCI bus, CUDA by default by speed (CUDA_DEVICE_ORDER=FASTEST_FIRST), so that with different cards index 0 of one is not index 0 of the other and the program lands on another GPU than meant.",
        fix="export CUDA_DEVICE_ORDER=PCI_BUS_ID before the start (or in code before the first CUDA call): then both count alike. Or choose by UUID: CUDA_VISIBLE_DEVICES=GPU-... from nvidia-smi -L.",
    ),
    zh=Text(
        title="CUDA 给这些 GPU 的编号顺序与 nvidia-smi 不同{cards:（*）}{visible:（CUDA_VISIBLE_DEVICES=*）}",
        why="nvidia-smi 按 PCI 总线排序，CUDA 默认按速度排序（CUDA_DEVICE_ORDER=FASTEST_FIRST）。显卡型号不同时，两边的 0 号并不是同一块，程序会跑到别的 GPU 上。",
        fix="启动前 export CUDA_DEVICE_ORDER=PCI_BUS_ID（或在代码第一次 CUDA 调用之前设置），两者编号即一致；或按 UUID 选择：CUDA_VISIBLE_DEVICES=GPU-...（见 nvidia-smi -L）。",
    ),    variants={
        "source": (
            Text(
                title="{code} uses a number of nvidia-smi's list ({listed}) as CUDA's",
                why="nvidia-smi and NVML count all cards by PCI bus; CUDA counts the visible ones, the fastest first. With different cards, or with CUDA_VISIBLE_DEVICES set, the same number is another card.",
                fix="os.environ['CUDA_DEVICE_ORDER'] = 'PCI_BUS_ID' before the first CUDA call, and choose by CUDA_VISIBLE_DEVICES (then use cuda:0); or ask torch.cuda.mem_get_info(i), which counts as CUDA does.",
            ),
            Text(
                title="{code} 把 nvidia-smi 的编号（{listed}）当成 CUDA 的编号使用",
                why="nvidia-smi 和 NVML 按 PCI 总线给所有显卡编号；CUDA 只数可见的卡，最快的排第一。显卡型号不同，或设了 CUDA_VISIBLE_DEVICES 时，同一个编号指的是另一块卡。",
                fix="在第一次 CUDA 调用之前设 os.environ['CUDA_DEVICE_ORDER'] = 'PCI_BUS_ID'，并用 CUDA_VISIBLE_DEVICES 选卡（之后用 cuda:0）；或改问 torch.cuda.mem_get_info(i)，它的编号与 CUDA 一致。",
            ),
        ),
    },
)
