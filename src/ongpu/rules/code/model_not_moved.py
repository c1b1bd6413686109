"""The input is on the GPU, the weights are not."""

from collections.abc import Iterator

from ongpu.facts.mismatch import Mismatches
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Finding, Layer, Rule, Severity, Text


def check(mismatches: Mismatches, symptoms: Symptoms | None) -> Iterator[Finding]:
    for found in mismatches.found:
        slug, certainty = found.suspect
        if slug != "model-not-moved":
            continue
        yield Finding(
            certainty=certainty,
            variant="parallel" if found.method == "data_parallel" else "",
            values={"on": found.odd_on or "cpu", "input": found.other_on or "cuda:0", "line": found.line or "?"},
            refs=(*found.raised.cite(), *(symptoms.cite("hf-model-device", "prints-device", most=2) if symptoms else ())),
        )
        return


RULE = Rule(
    slug="model-not-moved",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("device-mismatch",),
    see=("https://docs.pytorch.org/docs/stable/notes/cuda.html", "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html",),
    en=Text(
        title="The weights are on {on} while the input is on {input}",
        why="The data was moved to the GPU; the layer that stopped has its weight on the CPU{line:: *}. Either the model was never moved, or this part escaped the move: layers in a plain Python list or dict (they need nn.ModuleList or nn.ModuleDict), a layer replaced after .to(device), or a bare tensor that neither .to() nor accelerator.prepare() moves.",
        fix="Call model.to(device) after the model is complete (heads replaced, checkpoint loaded) and before the optimizer is built. Then look for what escaped: print([n for n, p in model.named_parameters() if p.device.type == 'cpu']); what is missing from this list altogether is not registered.",
    ),
    zh=Text(
        title="权重在 {on} 上，而输入在 {input} 上",
        why="数据已移到 GPU，出错的那一层权重却在 CPU{line:：*}。要么模型根本没有移动，要么这一部分被漏掉了：层放在普通 Python 列表或字典里（应改用 nn.ModuleList 或 nn.ModuleDict）、在 .to(device) 之后又替换了某一层，或是裸张量（.to() 和 accelerator.prepare() 都不会移动它）。",
        fix="在模型完全建好（换好头部、加载完权重）之后、创建优化器之前调用 model.to(device)。再查漏网的部分：print([n for n, p in model.named_parameters() if p.device.type == 'cpu'])；列表里根本没出现的就是没有注册。",
    ),
    variants={
        "parallel": (
            Text(
                title="The model is still on {on} when it is wrapped for several GPUs",
                why="DataParallel and DistributedDataParallel want all parameters and buffers of the module on the GPU (device_ids[0]) before they wrap it; one was found on {on}.",
                fix="Call model.to(device) (cuda:0, or cuda:LOCAL_RANK for DDP) before the wrapping, and move parts that are added later too.",
            ),
            Text(
                title="包装成多 GPU 时模型仍在 {on} 上",
                why="DataParallel 和 DistributedDataParallel 要求在包装之前，模块的全部参数和 buffer 都已在 GPU（device_ids[0]）上；这里发现有一个在 {on}。",
                fix="包装之前先 model.to(device)（cuda:0；DDP 用 cuda:LOCAL_RANK），之后新增的部分也要移动。",
            ),
        ),
    },
)
