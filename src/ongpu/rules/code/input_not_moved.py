"""The model is on the GPU, the batch or its labels are not."""

from collections.abc import Iterator

from ongpu.facts.mismatch import Mismatches
from ongpu.model import Finding, Layer, Rule, Severity, Text


def check(mismatches: Mismatches) -> Iterator[Finding]:
    for found in mismatches.found:
        slug, certainty = found.suspect
        if slug != "input-not-moved":
            continue
        variant = "xgboost" if found.odd == "xgboost input" else "target" if found.odd == "target" else ""
        yield Finding(
            certainty=certainty,
            severity=Severity.WARNING if variant == "xgboost" else None,
            variant=variant,
            values={"what": found.odd or "input", "on": found.odd_on or "cpu", "model": found.other_on or "cuda:0", "line": found.line or "?"},
            refs=found.raised.cite(),
        )
        return


RULE = Rule(
    slug="input-not-moved",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("device-mismatch",),
    see=("https://docs.pytorch.org/docs/stable/notes/cuda.html", "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html",),
    en=Text(
        title="The input is on {on} while the model's weights are on {model}",
        why="The model was moved to the GPU, the batch that it is given was not{line:: *}. If the code does call .to() on the batch, its result was thrown away: for a tensor, x.to(device) returns a copy and leaves x where it was.",
        fix="Move each batch before the forward pass and keep the result: inputs, targets = inputs.to(device), targets.to(device). Dictionaries and lists have to be moved item by item: batch = {{k: v.to(device) for k, v in batch.items()}}.",
    ),
    zh=Text(
        title="输入在 {on} 上，而模型权重在 {model} 上",
        why="模型已经移到 GPU，但送进去的 batch 没有移过去{line:：*}。如果代码里确实写了 .to()，那就是返回值被丢掉了：对张量而言 x.to(device) 返回副本，x 本身不动。",
        fix="在前向之前移动每个 batch 并接住返回值：inputs, targets = inputs.to(device), targets.to(device)。字典和列表要逐项移动：batch = {{k: v.to(device) for k, v in batch.items()}}。",
    ),
    variants={
        "target": (
            Text(
                title="The labels are on {on} while the model's output is on {model}",
                why="The inputs were moved to the GPU, the targets for the loss were not{line:: *}.",
                fix="Move the targets with the inputs: targets = targets.to(device).",
            ),
            Text(
                title="标签在 {on} 上，而模型输出在 {model} 上",
                why="输入已移到 GPU，但计算损失用的标签没有移过去{line:：*}。",
                fix="和输入一起移动标签：targets = targets.to(device)。",
            ),
        ),
        "xgboost": (
            Text(
                title="XGBoost trains on {model}, but the data given to predict is on the CPU",
                why="Training does use the GPU. At predict time a NumPy or pandas input lies in host memory, so XGBoost builds a DMatrix first: slower, not wrong. It is a hint about performance.",
                fix="Give predict data on the same device (a CuPy array, or a DMatrix with Booster.predict), or set the booster to the CPU before predicting (set_params(device='cpu')); or ignore the warning.",
            ),
            Text(
                title="XGBoost 在 {model} 上训练，而传给 predict 的数据在 CPU 上",
                why="训练确实用了 GPU。预测时的 NumPy 或 pandas 输入在主机内存里，XGBoost 需要先构建 DMatrix：只是变慢，结果没有错。这是一条性能提示。",
                fix="给 predict 传同一设备上的数据（CuPy 数组，或用 DMatrix 调 Booster.predict）；或在预测前把模型设到 CPU（set_params(device='cpu')）；也可以忽略该警告。",
            ),
        ),
    },
)
