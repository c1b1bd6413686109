"""Out of memory because of what one step computes: batch, resolution or sequence length."""

from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback, TrainingLog
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import suspect
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(
    oom: OutOfMemory | None, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None,
    symptoms: Symptoms | None,
) -> Iterator[Finding]:
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


def _size(gib: float | None) -> str:
    return "?" if gib is None else f"{gib * 1024:.2f} MiB" if gib < 1 else f"{gib:.2f} GiB"


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
