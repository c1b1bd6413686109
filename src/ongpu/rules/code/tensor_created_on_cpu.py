"""A tensor or layer is made without a device inside the computation."""

from collections.abc import Iterator

from ongpu.facts.mismatch import Mismatch, Mismatches
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(mismatches: Mismatches | None, symptoms: Symptoms | None) -> Iterator[Finding]:
    made = symptoms.cite("makes-tensor", "device-passed-told", most=3) if symptoms else ()
    printed = symptoms.cite("prints-device", most=3) if symptoms else ()
    if mismatches is None:
        told = symptoms.cite("device-passed-told", most=3) if symptoms else ()
        if told and symptoms and not symptoms.has("gpu-not-seen"):
            yield Finding(
                certainty=Certainty.LIKELY if printed else Certainty.POSSIBLE,
                values={"what": "tensor", "on": "cpu", "line": told[0].quote}, refs=(*told, *printed, *made),
            )
        return
    for found in mismatches.found:
        slug, certainty = found.suspect
        if slug != "tensor-created-on-cpu" and not (slug == "device-mismatch" and made and found.odd not in ("lengths", "generator") and not found.two_gpus):
            continue
        variant = "collective" if found.odd == "collective" else "layer" if found.odd == "weight" else ""
        what = {"hidden": "hidden state", "condition": "torch.where condition"}.get(found.odd or "", found.odd or "tensor")
        yield Finding(
            certainty=certainty,
            variant=variant,
            values={"what": what, "on": "cpu" if "cpu" in (found.odd_on, found.other_on) else found.odd_on or "cpu", "line": _place(found) or "?"},
            refs=(*found.raised.cite(), *made, *printed),
        )
        return


def _place(found: Mismatch) -> str:
    """The user's own line where it happened, with its file."""
    own = found.raised.own()
    name = own[-1].file.replace("\\", "/").rsplit("/", 1)[-1] if own else ""
    return f"{found.line} ({name}:{own[-1].line})" if own and found.line else found.line


RULE = Rule(
    slug="tensor-created-on-cpu",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("device-mismatch",),
    see=("https://docs.pytorch.org/docs/stable/notes/cuda.html", "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer",),
    en=Text(
        title="A {what} that the code makes itself is on {on}, while the rest is on the GPU",
        why="torch.zeros, arange, tensor, from_numpy and the like make tensors on the CPU unless they are told a device; .to() on the model moves parameters and buffers only. Here it meets GPU tensors{line:: *|.}",
        fix="Make it where it is used: torch.zeros(n, device=x.device), torch.zeros_like(x), x.new_zeros(n); move NumPy results with torch.from_numpy(a).to(x.device); constants of a module belong in register_buffer. Class weights of a loss: criterion.to(device).",
    ),
    zh=Text(
        title="代码自己创建的 {what} 在 {on} 上，其余张量在 GPU 上",
        why="torch.zeros、arange、tensor、from_numpy 等不指定设备时都建在 CPU；对模型调用 .to() 只移动参数和 buffer。它在这里遇上了 GPU 张量{line:：*|。}",
        fix="在使用处的设备上创建：torch.zeros(n, device=x.device)、torch.zeros_like(x)、x.new_zeros(n)；NumPy 结果用 torch.from_numpy(a).to(x.device)；模块里的常量用 register_buffer。损失的类别权重：criterion.to(device)。",
    ),
    variants={
        "layer": (
            Text(
                title="A layer is made inside forward, so its weights stay on {on}",
                why="The line builds a new layer at each call: {line}. It is not part of the model, so model.to(device) never moves it and the optimizer never trains it.",
                fix="Create the layer once in __init__ as an attribute (self.norm = ...), and only call it in forward.",
            ),
            Text(
                title="层是在 forward 里新建的，权重一直在 {on} 上",
                why="这一行每次调用都新建一层：{line}。它不属于模型，model.to(device) 移不到它，优化器也训练不到它。",
                fix="在 __init__ 中创建一次并存为属性（self.norm = ...），forward 里只调用它。",
            ),
        ),
        "collective": (
            Text(
                title="A tensor on the CPU is handed to an NCCL collective",
                why="NCCL moves GPU memory only; all_reduce, all_gather, broadcast and barrier of a CPU tensor need the Gloo backend. Here a tensor on {on} reached the NCCL process group.",
                fix="Make the tensor on this rank's GPU (device=f'cuda:{{local_rank}}'), or start with init_process_group('cpu:gloo,cuda:nccl') so that CPU tensors have a backend too.",
            ),
            Text(
                title="把 CPU 张量交给了 NCCL 集合通信",
                why="NCCL 只搬运 GPU 显存；CPU 张量做 all_reduce、all_gather、broadcast 需要 Gloo 后端。这里有一个 {on} 上的张量进了 NCCL 进程组。",
                fix="在本 rank 的 GPU 上创建张量（device=f'cuda:{{local_rank}}'），或用 init_process_group('cpu:gloo,cuda:nccl')，让 CPU 张量也有后端。",
            ),
        ),
    },
)
