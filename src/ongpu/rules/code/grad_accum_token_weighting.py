"""Accumulation averages over batches where it should average over tokens."""

import ast
from collections.abc import Iterator

from ongpu.facts.accumulation import AccumulationTable
from ongpu.facts.framework import Packages
from ongpu.facts.program import Event, Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Module, Tensor
from ongpu.facts.windows import nested, windows
from ongpu.knowledge._versions import numbers
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, packages: Packages | None, table: AccumulationTable | None, program: Program | None) -> Iterator[Finding]:
    yield from (finding for script in program.scripts for finding in _in_source(script)) if program else ()
    if symptoms is None:
        return
    told = symptoms.cite("num-items-in-batch", most=3)
    differs = symptoms.cite("loss-differs-words", most=2)
    version = packages.version("transformers") if packages else None
    old = bool(version and numbers(version)[:2] < (4, 46))
    tokens = symptoms.cite("token-counts", most=3)
    uneven = table is not None and len(table.steps) > 1 and not table.proportional and len(set(table.losses)) > 1
    accumulates = symptoms.has("accumulation-words", "micro-batch-words")
    if not accumulates or not (told or (tokens and (uneven or differs or symptoms.has("mean-of-means"))) or (differs and old)):
        return
    yield Finding(
        certainty=Certainty.LIKELY if differs or old or tokens else Certainty.POSSIBLE,
        variant="trainer" if version else "", values={"version": version or "?"},
        refs=(*told, *tokens, *symptoms.cite("mean-of-means", most=1), *differs, *symptoms.cite("accumulation-words", most=2), *(packages.cite("transformers") if packages else ())),
    )


PADS = ("pad_sequence", "padding=True", "padding='longest'", 'padding="longest"', 'padding="max_length"', "DataCollatorWithPadding", "DataCollatorForSeq2Seq")
MASKS = ("-100", "DataCollatorForSeq2Seq", "DataCollatorForLanguageModeling", "DataCollatorForCompletionOnlyLM")  # of which the loss ignores the labels
WEIGHED = ("num_items", "num_tokens", "n_tokens", "ntokens", "token_count", "total_tokens", "num_target", "valid_tokens", "reduction='sum'", 'reduction="sum"')


def _in_source(script: Script) -> Iterator[Finding]:
    """Windows whose loss is the mean over the tokens that are no padding, divided by the number of batches."""
    if script.says(*WEIGHED):
        return
    for window in (*windows(script), *nested(script)):
        for backward in window.backwards:
            loss = backward.receiver
            if not isinstance(loss, Tensor) or not any(t.scaled for t in loss.line()):
                continue
            line = {id(t) for t in loss.line()}
            masked = next((e for e in script.calls(*MASKED) if id(e.value) in line and _ignores(script, e)), None)
            if masked is None and (mean := _mean_of_masked(window.loop.node)) is not None and _divides_by_count(window.loop.node):
                ref = backward.file.ref(mean)
                yield Finding(
                    certainty=Certainty.LIKELY, variant="source", values={"steps": window.every, "code": backward.file.quote(mean, 60)},
                    refs=(ref, backward.ref(), window.step.ref()),
                )
                return
            own = masked is None and script.says(*PADS) and _language_model(loss)
            sure = masked is not None or script.says(*MASKS)
            if masked is not None or own:
                yield Finding(
                    certainty=Certainty.LIKELY if sure else Certainty.POSSIBLE, severity=None if sure else Severity.NOTE, variant="source",
                    values={"steps": window.every, "code": (masked or backward).words(60)}, refs=(backward.ref(), *((masked.ref(),) if masked else ()), window.step.ref()),
                )
                return


MASKED = ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss", "forward")


def _total(node: ast.expr) -> str:
    """What that expression is the sum of, in the source's words: "mask" of mask.sum(), of torch.sum(mask), of mask.sum().clamp(min=1)."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("clamp", "clamp_min", "float", "item"):
        node = node.func.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant):  # mask.sum() + 1e-8
        node = node.left
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "sum":
        return ""
    plain = isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
    if plain and len(node.args) == 1:
        return ast.unparse(node.args[0])
    return ast.unparse(node.func.value) if not plain and not node.args else ""


def _mean_of_masked(loop: ast.AST) -> ast.BinOp | None:
    """(losses * mask).sum() / mask.sum(): the mean over a micro-batch's own tokens."""
    for node in ast.walk(loop):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and (whole := _total(node.left)) and (mask := _total(node.right)):
            product = ast.parse(whole, mode="eval").body
            parts = (product.left, product.right) if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult) else ()
            if "mask" in mask.lower() and any(ast.unparse(part) == mask for part in parts):
                return node
    return None


def _divides_by_count(loop: ast.AST) -> bool:
    """Whether something is divided by a plain name or setting, too: the number of micro-batches."""
    divided = [n.right for n in ast.walk(loop) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    divided += [n.value for n in ast.walk(loop) if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Div)]
    plain = (n for n in divided if isinstance(n, ast.Name | ast.Attribute) or (isinstance(n, ast.Call) and ast.unparse(n.func) == "len"))
    return any(any(word in ast.unparse(n).lower() for word in ("accum", "micro", "len(", "steps")) for n in plain)


def _ignores(script: Script, call: Event) -> bool:
    """Whether that loss leaves out padding by name."""
    module = call.receiver if call.name == "forward" else None
    if call.name == "forward" and (not isinstance(module, Module) or not module.name.endswith(("CrossEntropyLoss", "NLLLoss"))):
        return False
    made = module.made if isinstance(module, Module) else call
    given = made.given(None, "ignore_index") if made is not None else None
    if given is not None and ast.unparse(given) == "-1":
        return _marked(script)
    return given is not None and any(word in ast.unparse(given).lower() for word in ("pad", "ignore", "-100"))


def _marked(script: Script) -> bool:
    """Whether some labels are set to -1: GPT's loss ignores it by habit, and packed sequences hold none."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            given = [*node.args, *(k.value for k in node.keywords)]
            if name in ("full", "full_like", "masked_fill", "masked_fill_", "pad", "pad_sequence", "fill_", "where") and any(ast.unparse(a) == "-1" for a in given):
                return True
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript) and ast.unparse(node.value) == "-1":
            return True
    return False


def _language_model(loss: Tensor) -> bool:
    """Whether a pretrained language model computed it by itself."""
    return any("ForCausalLM" in m.name or "ForConditionalGeneration" in m.name or "ForSeq2SeqLM" in m.name for m in loss.modules())


RULE = Rule(
    slug="grad-accum-token-weighting",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://huggingface.co/blog/gradient_accumulation", "https://github.com/huggingface/transformers/pull/34191",),
    en=Text(
        title="Gradient accumulation weights every micro-batch alike, whatever its number of tokens",
        why="Each micro-batch's loss is the mean over its own tokens; averaging these means is not the mean over all tokens when lengths or padding differ. Training with accumulation then differs from the same batch in one piece.",
        fix="Sum the token losses (reduction='sum') and divide by the total number of target tokens of the whole accumulated batch (num_items_in_batch), over all ranks as well.",
    ),
    zh=Text(
        title="梯度累积对每个 micro-batch 一视同仁，没有按 token 数加权",
        why="每个 micro-batch 的损失是它自己 token 的均值；长度或填充不同时，这些均值的平均不等于全部 token 的均值，于是累积训练与一次性大 batch 结果不同。",
        fix="对 token 损失求和（reduction='sum'），再除以整个累积 batch 的目标 token 总数（num_items_in_batch），多卡时跨 rank 统计。",
    ),
    variants={
        "source": (
            Text(
                title="Each of the {steps} batches weighs the same in the step, whatever its number of tokens",
                why="{code} is the mean over the tokens of one batch that are no padding; dividing it by {steps} gives the mean of these means, in which a token of a short batch counts more than one of a long batch. It differs from one large batch.",
                fix="Sum the token losses (reduction='sum') and divide by the number of target tokens of all {steps} batches of the window, over all ranks as well.",
            ),
            Text(
                title="{steps} 个 batch 在一步中的权重相同，与各自的 token 数无关",
                why="{code} 是单个 batch 中非填充 token 的均值；再除以 {steps} 得到的是均值的均值，短 batch 里的 token 比长 batch 里的更重，结果与一次性大 batch 不同。",
                fix="对 token 损失求和（reduction='sum'），再除以这 {steps} 个 batch 的目标 token 总数，多卡时跨 rank 统计。",
            ),
        ),
        "trainer": (
            Text(
                title="transformers {version}: gradient accumulation weights every micro-batch alike, whatever its number of tokens",
                why="Before 4.46 the Trainer averaged the means of the micro-batches; with padded or uneven lengths this is not the mean over all tokens. Later releases pass num_items_in_batch to the loss, if the model or compute_loss takes it.",
                fix="Upgrade transformers to a release from 4.46 on and let compute_loss or compute_loss_func use num_items_in_batch (average_tokens_across_devices=True on several GPUs); or compute the sum and divide by the token count yourself.",
            ),
            Text(
                title="transformers {version}：梯度累积对每个 micro-batch 一视同仁，没有按 token 数加权",
                why="4.46 之前 Trainer 对各 micro-batch 的均值再取平均；长度不齐或有填充时，这不等于全部 token 的均值。之后的版本会把 num_items_in_batch 传给损失，前提是模型或 compute_loss 接受它。",
                fix="升级 transformers 到 4.46 及以后，并让 compute_loss 或 compute_loss_func 使用 num_items_in_batch（多卡时 average_tokens_across_devices=True）；或自己求和再除以 token 数。",
            ),
        ),
    },
)
