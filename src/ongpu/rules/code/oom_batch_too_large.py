"""Out of memory because of what one step computes: batch, resolution or sequence length."""

from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback, TrainingLog
from ongpu.facts.dryrun import DryRun
from ongpu.facts.dryrun_parts import size
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import suspect
from ongpu.facts.profile import Allocations, gib
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(
    oom: OutOfMemory | None, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None,
    symptoms: Symptoms | None, allocations: Allocations | None, dryrun: DryRun | None,
) -> Iterator[Finding]:
    if dryrun:
        if dryrun.memory_cause == "oom-batch-too-large":
            yield _in_run(dryrun)
        return
    if allocations:
        yield from _in_snapshot(allocations)
    darknet = symptoms.cite("darknet-algo") if symptoms else ()
    if darknet:
        yield Finding(certainty=Certainty.LIKELY, variant="darknet", refs=darknet)
        return
    if oom is None:
        return
    slug, certainty, error = suspect(oom, traceback, log, processes, gpus)
    grows = symptoms is not None and symptoms.has("grows-words", "retain-graph")
    evaluates = symptoms is not None and symptoms.has("eval-oom-words", "outputs-kept") and error.total is None
    if slug != "oom-batch-too-large":
        return
    if (grows or evaluates) and certainty is not Certainty.CERTAIN:
        certainty = Certainty.POSSIBLE
    values = {
        "wanted": _size(error.wanted), "total": _size(error.total), "free": _size(error.free), "allocated": _size(error.allocated),
        "reserved": _size(error.reserved), "idle": _size(error.idle_reserve), "gpu": "?" if error.gpu is None else error.gpu,
    }
    beyond = error.wanted is not None and (error.wanted > 300 or (error.total is not None and error.wanted > error.total))
    best = error.holdable
    arithmetic = best is not None and error.wanted is not None and error.idle_reserve is not None and error.wanted > best and error.idle_reserve > 0.5
    variant = "beyond" if beyond else "arithmetic" if arithmetic else "figures" if error.total is not None and error.wanted is not None else ""
    yield Finding(
        certainty=certainty,
        variant=variant,
        values={**values, "best": _size(best)},
        refs=(error.ref, *(traceback.raised[0].cite()[1:] if traceback and traceback.raised else ())),
    )


def _in_snapshot(allocations: Allocations) -> Iterator[Finding]:
    """A request that failed with the memory in use: neither scattered nor growing."""
    for held in allocations.gpus:
        failed = held.refusals[-1] if held.refusals else None
        if failed is None or held.lowest or (failed.reserved is not None and held.idle >= failed.bytes > held.largest_idle):
            continue
        yield Finding(
            certainty=Certainty.LIKELY, subject=f"GPU {held.index}", variant="snapshot",
            values={
                "gpu": held.index, "wanted": gib(failed.bytes), "peak": gib(held.peak), "where": failed.where or "?",
                "free": "?" if failed.device_free is None else gib(failed.device_free),
                "owners": "; ".join(f"{one.place} {gib(one.bytes)}" for one in held.owners[:3]) or "?",
            },
            refs=(failed.ref, held.ref, *(one.ref for one in held.owners[:3])),
        )


def _size(gib: float | None) -> str:
    return "?" if gib is None else f"{gib * 1024:.2f} MiB" if gib < 1 else f"{gib:.2f} GiB"


def _in_run(run: DryRun) -> Finding:
    """From a dry run: what is in memory when the card is full."""
    kinds = run.memory.at_peak.by_kind
    variable = sum(kinds.get(kind, 0) for kind in ("activation", "temporary", "input", "other"))
    place = run.error.place if run.error else None
    held = [share.place.ref() for share in run.memory.at_peak.by_line[:3] if share.place]
    return Finding(
        variant="run",
        values={
            "card": run.card.name, "batch": run.batch_size or "?", "fixed": size(run.fixed), "variable": size(variable),
            "line": str(place) if place else "?", "need": size(run.needed), "largest": run.batch.largest if run.batch and run.batch.largest else "?",
            "half": "bfloat16 autocast" if run.card.capability >= (8, 0) else "float16 autocast (torch.amp.GradScaler)",
        },
        refs=(*((place.ref(),) if place else ()), *held),
    )


RULE = Rule(
    slug="oom-batch-too-large",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("cublas-init-failed", "cudnn-execution-failed", "oom-fragmentation",),
    see=("https://docs.pytorch.org/docs/stable/notes/faq.html", "https://docs.pytorch.org/docs/stable/notes/cuda.html",),
    en=Text(
        title="The GPU's memory is exhausted during a step",
        why="The message holds no figures that point elsewhere. What one step computes (batch, image size, sequence length) usually decides; the model's own weights, graphs kept over steps, and other processes on the card are the alternatives: nvidia-smi before the start and torch.cuda.memory_summary() tell them apart.",
        fix="Lower the batch size (darknet: more subdivisions; Trainer: per_device_train_batch_size) and make up for it with gradient accumulation; lower resolution or sequence length; use mixed precision (autocast, bf16) and activation checkpointing. If it happens from the first step with a batch of 1, the model itself is too large; if much more is reserved than allocated, set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    ),
    zh=Text(
        title="GPU 显存在某一步中耗尽",
        why="报错里没有指向其他原因的数字。通常由单步计算量（batch、图像尺寸、序列长度）决定；另外的可能是模型权重本身、跨步保留的计算图、卡上的其他进程：用启动前的 nvidia-smi 和 torch.cuda.memory_summary() 区分。",
        fix="减小 batch（darknet：增大 subdivisions；Trainer：per_device_train_batch_size），用梯度累积补偿；降低分辨率或序列长度；使用混合精度（autocast、bf16）和激活检查点（activation checkpointing）。如果 batch 为 1 也在第一步就失败，则是模型本身太大。",
    ),
    variants={
        "run": (
            Text(
                title="One step does not fit on {card}{batch: at batch size *}",
                why="The memory was full at {line}; with the context the run takes {need}. Weights, gradients and optimizer state are {fixed} of it; what grows with the batch, image size or sequence length is {variable}.",
                fix="{largest:The largest batch that fits is *;|ongpu dryrun --find-batch-size tells the largest batch that fits,} --savings tells what each change would save; make up for a smaller batch with gradient accumulation (loss divided by the number of micro-batches). {half} and activation checkpointing shrink the activations; a shorter sequence or smaller images do too.",
            ),
            Text(
                title="单步放不进 {card}{batch:（batch 为 *）}",
                why="显存在 {line} 处耗尽；加上上下文共需 {need}。其中权重、梯度和优化器状态占 {fixed}；随 batch、图像尺寸或序列长度增长的部分占 {variable}。",
                fix="{largest:放得下的最大 batch 是 *；|ongpu dryrun --find-batch-size 可求出放得下的最大 batch，}--savings 可算出各项改动能省多少；用梯度累积补偿（损失除以累积步数）。{half} 和激活检查点能减少激活；更短的序列或更小的图像也可以。",
            ),
        ),
        "snapshot": (
            Text(
                title="GPU {gpu}: a request of {wanted} failed with {peak} in use at the peak{free:, * free on the card|}",
                why="The allocator's record shows the memory really in use: neither scattered nor growing from step to step.{where: Asked for by *.|} The largest owners at the peak: {owners}.",
                fix="Shrink the largest owner: batch size or sequence length with gradient accumulation, activation checkpointing, bf16, 8-bit or sharded optimizer states. What other processes hold on the card is missing too: nvidia-smi.",
            ),
            Text(
                title="GPU {gpu}：申请 {wanted} 失败，峰值时已用 {peak}{free:，显卡剩余 *|}",
                why="分配器记录显示显存确实在用：既没有碎片化，也没有逐步增长。{where:申请来自 *。|}峰值时最大的持有者：{owners}。",
                fix="缩小最大的持有者：减小 batch 或序列长度并配合梯度累积，使用激活检查点、bf16、8 位或分片的优化器状态。其他进程占用的显存也要算上：nvidia-smi。",
            ),
        ),
        "darknet": (
            Text(
                title="cuDNN finds no algorithm for a convolution: too little memory is left for its workspace",
                why="Darknet's \"cuDNN isn't found FWD algo for convolution\" stands for memory that does not suffice for any algorithm's workspace. cuDNN itself was found and works.",
                fix="In the .cfg raise subdivisions (batch=64 subdivisions=32 or 64), lower width and height; end other programs on the card. Only if the card is nearly empty, check the cuDNN version.",
            ),
            Text(
                title="cuDNN 找不到卷积算法：剩余显存不够任何算法的工作区",
                why="Darknet 的“cuDNN isn't found FWD algo for convolution”意味着显存不够任何算法的工作区（workspace）。cuDNN 本身已找到且正常。",
                fix="在 .cfg 中增大 subdivisions（batch=64 subdivisions=32 或 64），减小 width 和 height；结束卡上的其他程序。只有显存基本空闲时才去检查 cuDNN 版本。",
            ),
        ),
        "figures": (
            Text(
                title="GPU {gpu} ({total}) is full of this program's own tensors: {allocated:* in use, and }{wanted} more was asked for",
                why="Allocated, reserved and free memory add up to the card, so nobody else holds it, and what is reserved without use{idle: (*)} would not help much. What a step computes (batch, image size, sequence length) does not fit beside the model. If the first steps pass and memory rises from step to step, look for graphs or outputs that are kept.",
                fix="Lower the batch size and make up for it with gradient accumulation; lower resolution or sequence length; use mixed precision (autocast, bf16) and activation checkpointing. With a batch of 1 failing too, the model is too large for the card.",
            ),
            Text(
                title="GPU {gpu}（{total}）被本程序自己的张量占满：{allocated:已用 *，}还要再申请 {wanted}",
                why="已分配、已保留与空闲相加正好是整张卡，说明没有别人占用；保留而未用的部分{idle:（*）}也帮不上多少。单步计算（batch、图像尺寸、序列长度）加上模型放不下。如果前几步能过、显存逐步上涨，则要查被保留的计算图或输出。",
                fix="减小 batch，用梯度累积补偿；降低分辨率或序列长度；使用混合精度（autocast、bf16）和激活检查点。如果 batch 为 1 也失败，则模型对这张卡太大。",
            ),
        ),
        "arithmetic": (
            Text(
                title="{wanted} in one piece cannot fit: even with the whole reserve given back only {best} would be free",
                why="GPU {gpu} has {total}, {allocated} of it in live tensors; free memory ({free}) and unused reserve ({idle}) together are less than the request. So fragmentation is not the cause, whatever hint the message prints (expandable_segments, max_split_size_mb).",
                fix="Make the input of this operation smaller: batch, tile, volume, image or sequence length; process it in pieces; hold parts on the CPU; use half precision.",
            ),
            Text(
                title="单次申请 {wanted} 不可能满足：把保留内存全部释放也只有 {best}",
                why="GPU {gpu} 共 {total}，其中 {allocated} 是活动张量；空闲（{free}）加保留未用（{idle}）仍小于这次申请。所以原因不是碎片，不管报错里提示了什么（expandable_segments、max_split_size_mb）。",
                fix="缩小该运算的输入：batch、分块、体数据、图像或序列长度；分块处理；把一部分放在 CPU；使用半精度。",
            ),
        ),
        "beyond": (
            Text(
                title="One single request of {wanted} is more than the card has ({total})",
                why="No card setting or allocator option can satisfy this: the input of one operation is far too large, typically an image that was not scaled down, a batch or sequence length typed wrongly, attention over a very long sequence, or a pairwise matrix of all samples.",
                fix="Make that input smaller (resize the image, tile it, cut the sequence, compute in chunks), lower the batch size, or use memory-efficient attention (SDPA, FlashAttention).",
            ),
            Text(
                title="一次申请 {wanted}，比整张卡（{total}）还大",
                why="任何显卡设置或分配器选项都满足不了：某个运算的输入过大，典型情形是图像没有缩小、batch 或序列长度写错、对超长序列做注意力，或计算所有样本两两之间的矩阵。",
                fix="缩小该输入（缩放图像、分块、截断序列、分批计算），减小 batch，或使用省显存的注意力（SDPA、FlashAttention）。",
            ),
        ),
    },
)
