"""Weights, gradients and optimizer states alone do not fit."""

from collections.abc import Iterator
from typing import NamedTuple

from ongpu.facts.code import OutOfMemory, Traceback, TrainingLog
from ongpu.facts.dryrun import DryRun
from ongpu.facts.dryrun_parts import size
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import suspect
from ongpu.facts.program import Event, Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.facts.values import CUDA, MAYBE, Const
from ongpu.facts.weights import parameters
from ongpu.knowledge.gpus import model
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Layer, Ref, Rule, Severity, Text


def check(
    oom: OutOfMemory | None, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None,
    symptoms: Symptoms | None, dryrun: DryRun | None, program: Program | None,
) -> Iterator[Finding]:
    card = _largest(gpus, oom)
    if program and card and not dryrun:
        yield from (finding for script in program.scripts for finding in _in_source(script, card, oom is not None))
    if dryrun:
        if dryrun.memory_cause == "oom-model-too-large":
            yield _in_run(dryrun)
        return
    spills = symptoms.cite("model-spills", most=2) if symptoms else ()
    if spills:
        shown = [f"{g.name}: {g.memory_total} MiB" for g in gpus.gpus if g.name and g.memory_total] if gpus else []
        yield Finding(
            certainty=Certainty.LIKELY, variant="spills", values={"cards": shown or "the card"},
            refs=(*spills, *(gpus.refs[:2] if gpus else ())),
        )
        return
    if oom is None:
        return
    slug, certainty, error = suspect(oom, traceback, log, processes, gpus)
    if slug != "oom-model-too-large":
        return
    values = {
        "wanted": _size(error.wanted), "total": _size(error.total), "free": _size(error.free), "allocated": _size(error.allocated),
        "reserved": _size(error.reserved), "idle": _size(error.idle_reserve), "gpu": "?" if error.gpu is None else error.gpu,
    }
    spilled = error.allocated is not None and error.total is not None and error.allocated > error.total * 1.02
    stepping = traceback is not None and any(r.through("/optim/", "optimizer.step") for r in traceback.raised)
    variant = "spilled" if spilled else "kv" if error.kind == "kv-cache" else "step" if stepping else ""
    cards = gpus.all_names() if gpus else ()
    yield Finding(
        certainty=certainty,
        variant=variant,
        values={**values, "cards": cards or "the card", "available": _size(error.free)},
        refs=(error.ref, *(traceback.raised[0].cite()[1:] if traceback and traceback.raised else ())),
    )


class Card(NamedTuple):
    """A card by its size, in GiB."""

    name: str
    total: float
    refs: tuple[Ref, ...] = ()


STATE = {"Adam": 2, "AdamW": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "SGD": 0, "RMSprop": 1, "Adagrad": 1}  # tensors for each parameter, at least
NAMED = lazy(r"(?<![\d.A-Za-z])(\d{1,3}(?:\.\d{1,2})?) ?[bB](?![A-Za-z])")  # "Llama-2-70b-hf"
SHARED = ("quantiz", "load_in_", "bitsandbytes", "device_map", "'meta'", '"meta"', "offload", "gguf", "gptq", "awq", "checkpoint_wrapper", "pipeline_parallel")


def _largest(gpus: Gpus | None, oom: OutOfMemory | None) -> Card | None:
    """The largest of the cards, as nvidia-smi shows them, else by their names, else the one that an error tells the size of."""
    told = [Card(g.name or "the card", g.memory_total / 1024, gpus.cite()[:1]) for g in gpus.gpus if g.memory_total] if gpus else []
    known = [Card(name, found.memory_gib, gpus.cite()[:1]) for name in gpus.all_names() if (found := model(name)) and found.memory_gib] if gpus else []
    full = [Card("the card" if e.gpu is None else f"GPU {e.gpu}", e.total, (e.ref,)) for e in oom.errors if e.total] if oom else []
    return max(told or known or full, key=lambda card: card.total, default=None)


def _in_source(script: Script, card: Card, full: bool) -> Iterator[Finding]:
    """Modules that are moved to CUDA and weigh more than the largest of the cards, by the sizes in the source. full: memory did run
    out; a pretrained model without a dtype is taken as float32 then, which transformers loaded up to version 4."""
    yield from _in_trainer(script, card)
    if script.says(*SHARED) or script.managed:
        return
    half = script.says("float16", "bfloat16", ".half(")
    for module in script.modules:
        move = next((m for m in module.moves or () if m.device.where in (CUDA, MAYBE)), None)
        if move is None or module.owner is not None or module.made is None:
            continue
        named = _named(module.made)
        count = named or parameters(script, module)
        width = 2 if half or (named and not full and not script.says("float32")) else 4
        optimizer = next((o for o in script.optimizers if any(m is module for m in o.over)), None)
        trained = optimizer is not None and script.trains and width == 4 and not script.says(*FROZEN, "lora", "Lora", "LoRA")
        each = width + 4 * (1 + STATE.get(optimizer.cls.rpartition(".")[2], 0)) if trained and optimizer else width
        total = card.total
        if count * each / 2**30 <= total:
            continue
        alone = count * width / 2**30 > total
        yield Finding(
            certainty=Certainty.LIKELY,
            subject=module.name,
            variant="source" if alone else "source-train",
            values={
                "model": _called(module.made) or module.name.rpartition(".")[2], "count": f"{count / 1e9:.1f}", "type": "float32" if width == 4 else "16 bit",
                "weights": f"{count * width / 2**30:.1f}", "need": f"{count * each / 2**30:.0f}", "card": card.name, "total": f"{total:.0f}",
            },
            refs=(move.event.ref(), module.made.ref(), *(optimizer.made.ref() for _ in (1,) if optimizer and not alone), *card.refs),
        )


FROZEN = ("requires_grad =", "requires_grad=", "requires_grad_(", "freeze")  # a count of what is trained freezes nothing
TRAINERS = ("transformers.Trainer", "transformers.Seq2SeqTrainer", "trl.SFTTrainer")
SMALLER = (*SHARED, "peft", "lora", "Lora", "LoRA", "deepspeed", "fsdp", "adafactor", "8bit", "8-bit", "galore", "lomo", *FROZEN)


def _in_trainer(script: Script, card: Card) -> Iterator[Finding]:
    """A pretrained model that its name tells the size of, trained whole by a trainer with Adam: weights, gradients and two moments."""
    trainer = next(script.calls(*TRAINERS), None)
    made = next((e for e in script.calls() if e.name.endswith("from_pretrained") and "Tokenizer" not in e.name and _named(e)), None)
    if trainer is None or made is None or script.says(*SMALLER):
        return
    width = 2 if made.given(None, "torch_dtype") or made.given(None, "dtype") else 4
    count = _named(made)
    need = count * width * 4 / 2**30  # each parameter's weight, gradient and the two moments of Adam, in the type of the weights
    if need > card.total:
        yield Finding(
            certainty=Certainty.LIKELY, subject=made.words(60), variant="source-train",
            values={
                "model": made.words(60), "count": f"{count / 1e9:.1f}", "type": "float32" if width == 4 else "16 bit",
                "weights": f"{count * width / 2**30:.1f}", "need": f"{need:.0f}", "card": card.name, "total": f"{card.total:.0f}",
            },
            refs=(made.ref(), trainer.ref(), *card.refs),
        )  # fmt: skip


def _named(made: Event) -> float:
    """Parameters as the name of a pretrained model tells them."""
    first = made.arg(0, "pretrained_model_name_or_path")
    if not made.name.endswith("from_pretrained") or not isinstance(first, Const) or not isinstance(first.value, str):
        return 0
    told = NAMED.search(first.value)
    return float(told[1]) * 1e9 if told else 0


def _called(made: Event) -> str:
    """The name of a pretrained model without its folders."""
    first = made.arg(0, "pretrained_model_name_or_path")
    return first.value.rstrip("/").rpartition("/")[2] if _named(made) and isinstance(first, Const) else ""


def _size(gib: float | None) -> str:
    return "?" if gib is None else f"{gib * 1024:.2f} MiB" if gib < 1 else f"{gib:.2f} GiB"


def _in_run(run: DryRun) -> Finding:
    """From a dry run: weights, gradients and optimizer state, counted."""
    kinds = run.memory.at_peak.by_kind
    place = run.error.place if run.error else None
    optimizers = [optimizer.class_ for optimizer in run.devices.optimizers]
    return Finding(
        variant="run",
        values={
            "card": run.card.name, "capacity": size(run.memory.capacity), "fixed": size(run.unavoidable), "line": str(place) if place else "?",
            "weights": size(kinds.get("weight", 0)), "optimizer": optimizers[0] if optimizers else "?",
        },
        refs=tuple(p.ref() for p in dict.fromkeys((place, run.memory.at_peak.place)) if p),
    )


RULE = Rule(
    slug="oom-model-too-large",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("cublas-init-failed", "cudnn-execution-failed", "oom-fragmentation", "oom-batch-too-large",),
    see=("https://huggingface.co/docs/transformers/model_memory_anatomy", "https://docs.pytorch.org/docs/stable/notes/faq.html",),
    en=Text(
        title="The model itself does not fit on GPU {gpu} ({total}): memory ran out while it was loaded or built{allocated:, with * in use}",
        why="Weights need 4 bytes a parameter in float32 and 2 in float16 or bfloat16 (7e9 parameters: 26 GiB or 13 GiB); training adds a gradient and, with Adam, two float32 states (about 16 bytes a parameter). A smaller batch does not help.",
        fix="Load in half precision (torch_dtype=torch.bfloat16; the default is float32), quantise (8-bit or 4-bit, GGUF Q4), offload (device_map='auto', --cpu-offload, fewer -ngl layers), train adapters (LoRA) or shard over GPUs (FSDP, ZeRO-3, tensor parallel), or take a smaller model.",
    ),
    zh=Text(
        title="模型本身放不进 GPU {gpu}（{total}）：加载或构建时显存就耗尽了{allocated:，已用 *}",
        why="权重在 float32 下每参数 4 字节，float16 或 bfloat16 为 2 字节（70 亿参数：26 GiB 或 13 GiB）；训练还要加梯度，Adam 再加两份 float32 状态（每参数约 16 字节）。减小 batch 没有用。",
        fix="用半精度加载（torch_dtype=torch.bfloat16；默认是 float32），量化（8 位或 4 位、GGUF Q4），卸载（device_map='auto'、--cpu-offload、减少 -ngl 层数），只训练适配器（LoRA），或分片到多卡（FSDP、ZeRO-3、张量并行），或换小模型。",
    ),
    variants={
        "source": (
            Text(
                title="{model} has about {count}B parameters: {weights} GiB in {type}, more than the {total} GiB of the {card}",
                why="The sizes of the layers in the source give that number; in {type} the weights alone do not fit, whatever the batch size.",
                fix="Load the weights in half precision (torch_dtype=torch.bfloat16, model.half()) if that fits, quantised (4 or 8 bit), or spread over several cards and the host (device_map='auto', FSDP); or take a smaller model.",
            ),
            Text(
                title="{model} 约有 {count}B 参数（B：十亿）：以 {type} 计 {weights} GiB，超过 {card} 的 {total} GiB",
                why="按源代码里各层的尺寸可得出这个数目；以 {type} 计，仅权重就放不下，与 batch 大小无关。",
                fix="若半精度放得下，用半精度加载权重（torch_dtype=torch.bfloat16、model.half()）；或量化（4 / 8 位）；或分布到多卡和主机（device_map='auto'、FSDP）；或换小一点的模型。",
            ),
        ),
        "source-train": (
            Text(
                title="Training {model} needs at least {need} GiB before any activation, more than the {total} GiB of the {card}",
                why="About {count}B parameters: the weights take {weights} GiB in {type}, the gradients as much again, and the optimizer keeps its own tensors for each parameter (Adam and AdamW two).",
                fix="An optimizer with less state (8-bit Adam, Adafactor, SGD), LoRA or frozen layers, bfloat16 weights, FSDP or DeepSpeed ZeRO over several cards or with offload to the host; or a smaller model.",
            ),
            Text(
                title="训练 {model} 在没有任何激活之前就至少需要 {need} GiB，超过 {card} 的 {total} GiB",
                why="参数约 {count}B（B：十亿）：权重以 {type} 计占 {weights} GiB，梯度再占同样多，优化器还要为每个参数保存自己的张量（Adam 和 AdamW 是两份）。",
                fix="使用状态更少的优化器（8 位 Adam、Adafactor、SGD），LoRA 或冻结部分层，bfloat16 权重，多卡 FSDP 或 DeepSpeed ZeRO，或卸载到主机；或换小一点的模型。",
            ),
        ),
        "run": (
            Text(
                title="Weights, gradients and optimizer state need {fixed}, {card} has room for {capacity}: no batch size fits",
                why="The memory was full at {line}, with {weights} of weights in it. Training adds a gradient for each trained weight{optimizer: and the states of *} (Adam: two float32 values a parameter), whatever the batch.",
                fix="Train fewer parameters (LoRA), take an optimizer with smaller states (8-bit Adam, Adafactor, SGD), bf16 weights, shard over GPUs (FSDP, ZeRO-3), offload, or take a larger card (the table above names the smallest).",
            ),
            Text(
                title="权重、梯度和优化器状态需要 {fixed}，而 {card} 只有 {capacity}：任何 batch 都放不下",
                why="显存在 {line} 处耗尽，其中权重占 {weights}。训练时每个可训练权重还要一份梯度{optimizer:，以及 * 的状态}（Adam：每参数两个 float32），与 batch 无关。",
                fix="只训练部分参数（LoRA），换状态更小的优化器（8 位 Adam、Adafactor、SGD），权重用 bf16，多卡分片（FSDP、ZeRO-3），卸载，或换更大的卡（上表列出了最小可用的卡）。",
            ),
        ),
        "spills": (
            Text(
                title="The model does not fit on {cards}: some of its modules are put on the CPU or the disk",
                why="accelerate fills the GPU first (device_map='auto') and places the rest elsewhere. Quantized (bitsandbytes) modules may not run there, and any other runs very slowly: there is not enough GPU RAM for this model.",
                fix="Take a smaller or more strongly quantised model (4-bit: load_in_4bit=True), free the card (other processes), or accept offloading: llm_int8_enable_fp32_cpu_offload=True with a device_map; max_memory={{0: '...GiB'}} tells accelerate what it may use.",
            ),
            Text(
                title="模型放不进 {cards}：部分模块被放到了 CPU 或磁盘",
                why="accelerate（device_map='auto'）先填满 GPU，其余放到别处。量化（bitsandbytes）模块可能不能在那里运行，其他模块则非常慢：这块 GPU 的显存（GPU RAM）不够这个模型。",
                fix="换更小或量化更强的模型（4 位：load_in_4bit=True），清空显卡（其他进程），或接受卸载：llm_int8_enable_fp32_cpu_offload=True 并给出 device_map；max_memory={{0: '...GiB'}} 告诉 accelerate 可用多少。",
            ),
        ),
        "spilled": (
            Text(
                title="PyTorch holds {allocated} on a card of {total}: the model needs more than the card has",
                why="More allocated than the capacity means that the Windows driver had already spilled into system memory (sysmem fallback) before it gave up. The need is really that large; fragmentation is not the cause.",
                fix="Use a smaller or quantised model, half precision, offloading or a smaller batch; \"Prefer No Sysmem Fallback\" in NVIDIA's control panel makes it fail early instead of crawling.",
            ),
            Text(
                title="PyTorch 在 {total} 的卡上占用了 {allocated}：模型需要的比卡上有的多",
                why="已分配超过容量，说明 Windows 驱动在放弃之前已经溢出到系统内存（sysmem fallback）。需求确实这么大，不是碎片问题。",
                fix="换更小或量化的模型、半精度、卸载或更小的 batch；在 NVIDIA 控制面板选“Prefer No Sysmem Fallback”，可以及早报错而不是极慢运行。",
            ),
        ),
        "kv": (
            Text(
                title="No room is left for the KV cache beside the weights{available: (available: *)}{wanted: (needed: *)}",
                why="vLLM loads the weights, profiles one pass, and gives the rest of gpu_memory_utilization x card to the KV cache. What is left cannot hold even one sequence of the model's maximum length.",
                fix="Lower --max-model-len (and --max-num-seqs), raise --gpu-memory-utilization (0.95), use --kv-cache-dtype fp8 or a quantised model, or --tensor-parallel-size over more GPUs.",
            ),
            Text(
                title="权重之外没有空间放 KV cache{available:（可用 *）}{wanted:（需要 *）}",
                why="vLLM 先加载权重、试跑一次，再把 gpu_memory_utilization × 显存的剩余部分给 KV cache。剩余空间连一条最大长度的序列都放不下。",
                fix="减小 --max-model-len（和 --max-num-seqs），提高 --gpu-memory-utilization（0.95），使用 --kv-cache-dtype fp8 或量化模型，或用 --tensor-parallel-size 分到更多 GPU。",
            ),
        ),
        "step": (
            Text(
                title="Memory ran out when the optimizer made its states: weights, gradients and states do not fit ({allocated} of {total} in use)",
                why="The forward and backward pass went through; Adam allocates two more copies of the parameters at the first step. The batch is not the main part.",
                fix="Use an optimizer with smaller states (8-bit Adam of bitsandbytes, Adafactor, SGD), shard them (ZeRO, FSDP), offload them to the CPU, train fewer parameters (LoRA), or use bf16.",
            ),
            Text(
                title="优化器创建状态时显存耗尽：权重、梯度和状态放不下（{total} 中已用 {allocated}）",
                why="前向和反向都过了；Adam 在第一步还要分配两份与参数同样大小的状态。batch 不是主要部分。",
                fix="换状态更小的优化器（bitsandbytes 的 8 位 Adam、Adafactor、SGD），把状态分片（ZeRO、FSDP）或卸载到 CPU，减少可训练参数（LoRA），或使用 bf16。",
            ),
        ),
    },
)
