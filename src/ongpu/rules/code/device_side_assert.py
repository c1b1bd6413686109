"""A kernel found an index, label or value out of range."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.dryrun import DryRun
from ongpu.facts.dryrun_parts import Indices
from ongpu.facts.environment import Variables
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, traceback: Traceback | None, dryrun: DryRun | None, variables: Variables | None) -> Iterator[Finding]:
    found = [_in_run(index) for index in dryrun.indices] if dryrun else []
    yield from found
    if symptoms is None or found:
        return
    kinds = ("assert-probability", "assert-label", "assert-bce", "assert-embedding", "assert-triton", "assert-index")
    said = symptoms.has("device-assert", "assertion-line", "assert-embedding")
    specific = [hit for hit in symptoms.seen(*kinds) if hit.name in ("assert-embedding", "assert-triton", "assert-probability") or said]
    if not symptoms.has("device-assert") and not specific:
        return
    length = symptoms.value("got", "token-length")
    names = {hit.name for hit in specific}
    variant = next((name.removeprefix("assert-") for name in kinds if name in names), "")
    if length and variant in ("embedding", ""):
        variant = "length"
    raised = traceback.said("device-side assert", "cublas_status", "cuda error") if traceback else None
    line = raised.own()[-1].code if raised and raised.own() else "?"
    blocked = variables is not None and variables.get("CUDA_LAUNCH_BLOCKING") not in (None, "", "0")
    yield Finding(
        fixes=() if blocked else (Fix("launch-blocking"),),
        variant=variant,
        values={
            "got": length or "?", "most": symptoms.value("most", "token-length") or "?",
            "words": symptoms.value("words", "assertion-line") or "?", "where": symptoms.value("where", "assertion-line") or "?",
            "line": "?" if blocked else line, "blocked": line if blocked else "?",
        },
        refs=(
            *symptoms.cite("token-length", most=1), *symptoms.cite(*kinds, most=1), *symptoms.cite("assertion-line", most=2),
            *symptoms.cite("device-assert", "label-cpu", most=2), *(raised.cite() if raised else ()),
        ),
    )


def _in_run(index: Indices) -> Finding:
    """From a dry run: values that a kernel would have refused."""
    least, most = (*index.allowed, None, None)[:2]
    return Finding(
        fixes=(Fix("launch-blocking"),),
        variant="run",
        subject=str(index.place or index.op),
        values={
            "op": index.op, "low": "?" if index.low is None else index.low, "high": "?" if index.high is None else index.high,
            "least": "?" if least is None else least, "most": "?" if most is None else most, "line": str(index.place) if index.place else "?",
        },
        refs=(index.place.ref(),) if index.place else (),
    )


RULE = Rule(
    slug="device-side-assert",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("cublas-init-failed", "cudnn-execution-failed", "illegal-memory-access", "oom-batch-too-large",),
    see=("https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution", "https://github.com/huggingface/transformers/issues/12763",),
    en=Text(
        title="A kernel stopped with a device-side assert: an index, label or value was out of range",
        why="The GPU checks bounds in the kernel and stops the whole CUDA context; {blocked:with CUDA_LAUNCH_BLOCKING=1 the line of the traceback is the guilty one: *|the error shows up later, in an unrelated line}{line: (*)}. The assertion line printed above the traceback tells which check it was. After it, every CUDA call of the process fails: restart it.",
        fix="Run once with CUDA_LAUNCH_BLOCKING=1, or on the CPU, to see the real line. Then check labels (0 to classes - 1), token ids against the size of the embedding, and indices of gather, scatter and indexing.",
    ),
    zh=Text(
        title="kernel 因设备端断言停止：索引、标签或取值越界",
        why="GPU 在 kernel 里检查边界，并终止整个 CUDA 上下文；{blocked:设了 CUDA_LAUNCH_BLOCKING=1，回溯里的这一行就是出错处：*|错误会在后面不相干的一行才报出来}{line:（*）}。回溯上方打印的断言行说明是哪种检查。此后该进程的所有 CUDA 调用都会失败，需要重启进程。",
        fix="用 CUDA_LAUNCH_BLOCKING=1 或在 CPU 上运行一次，看到真正的出错行。再检查标签（0 到 C-1，C 为类别数）、token id 是否超过 embedding 大小，以及 gather、scatter 和索引的下标。",
    ),
    variants={
        "run": (
            Text(
                title="{op} at {line} gets values from {low} to {high}; only {least} to {most} are allowed",
                why="On a GPU this stops the kernel with a device-side assert, reported at some later line, and the process cannot use CUDA any more.",
                fix="Labels run from 0 to the number of classes less one (and ignore_index); token ids must be smaller than the embedding's num_embeddings: make the table larger (resize_token_embeddings), or repair the data. Check it with assert on the CPU.",
            ),
            Text(
                title="{line} 处的 {op} 得到的值为 {low} 到 {high}，而只允许 {least} 到 {most}",
                why="在 GPU 上，kernel 会因设备端断言（device-side assert）停止，报错出现在之后的某一行，而且该进程无法再使用 CUDA。",
                fix="标签应为 0 到类别数减一（以及 ignore_index）；token id 必须小于 embedding 的 num_embeddings：扩大词表（resize_token_embeddings）或修正数据。可在 CPU 上用 assert 检查。",
            ),
        ),
        "embedding": (
            Text(
                title="An index is larger than the table it reads: token ids beyond the embedding (srcIndex < srcSelectDimSize)",
                why="index_select reads a row that does not exist. Usual causes: tokens were added to the tokenizer without enlarging the embedding, tokenizer and model do not belong together, a padding id of -1 or vocab_size, or positions beyond the position table. Later cuBLAS or CUDA errors are consequences.",
                fix="model.resize_token_embeddings(len(tokenizer)) after adding tokens; use the tokenizer that belongs to the model; check ids.min() >= 0 and ids.max() < embedding.num_embeddings; cut sequences to the model's maximum (truncation=True, max_length=...).",
            ),
            Text(
                title="索引超出所查的表：token id 超过 embedding 大小（srcIndex < srcSelectDimSize）",
                why="index_select 读取了不存在的行。常见原因：给 tokenizer 加了 token 却没有扩大 embedding、tokenizer 与模型不配套、填充 id 为 -1 或等于 vocab_size、位置超过位置表。后面的 cuBLAS 或 CUDA 错误都是连带结果。",
                fix="加 token 后执行 model.resize_token_embeddings(len(tokenizer))；使用与模型配套的 tokenizer；检查 ids.min() >= 0 且 ids.max() < embedding.num_embeddings；把序列截断到模型上限（truncation=True, max_length=...）。",
            ),
        ),
        "length": (
            Text(
                title="Sequences of {got} tokens reach a model that has {most} positions: the position embedding is read out of bounds",
                why="The tokenizer warned that the sequence is longer than the model's maximum ({got} > {most}); the position table has no such row, so the embedding lookup asserts. The vocabulary is not the problem.",
                fix="Cut to the maximum: tokenizer(..., truncation=True, max_length={most}), or group texts into blocks of {most}; or use a model with more positions.",
            ),
            Text(
                title="长度为 {got} 个 token 的序列送进了只有 {most} 个位置的模型：位置 embedding 越界",
                why="tokenizer 已警告序列超过模型上限（{got} > {most}）；位置表没有这一行，embedding 查表就触发断言。与词表无关。",
                fix="截断到上限：tokenizer(..., truncation=True, max_length={most})，或把文本切成 {most} 的块；或换位置更多的模型。",
            ),
        ),
        "label": (
            Text(
                title="A class label is outside 0 .. n_classes - 1",
                why="NLL or cross-entropy loss found a target that is negative or not smaller than the number of outputs ({words}). Usual: labels that start at 1, an ignore value such as 255 or -1 without ignore_index, or a last layer with too few outputs.",
                fix="Check targets.min(), targets.max() against the last layer's outputs; shift labels to start at 0, set ignore_index=255 (or -100), or enlarge the last layer (num_labels=...).",
            ),
            Text(
                title="类别标签不在 0 .. n_classes - 1 范围内",
                why="NLL 或交叉熵损失遇到了负数或不小于输出个数的标签（{words}）。常见：标签从 1 开始；255 或 -1 之类的忽略值没有设 ignore_index；最后一层输出太少。",
                fix="对比 targets.min()、targets.max() 与最后一层输出数；把标签改成从 0 开始，设置 ignore_index=255（或 -100），或加大最后一层（num_labels=...）。",
            ),
        ),
        "bce": (
            Text(
                title="Binary cross-entropy got values outside 0 .. 1",
                why="BCELoss wants probabilities and targets between 0 and 1 ({words}). Usual: logits without a sigmoid, labels such as 2 or 255, or NaN after a divergence.",
                fix="Use BCEWithLogitsLoss on the logits (or sigmoid before BCELoss), scale the targets to 0 and 1, and look for NaN (torch.isnan, a lower learning rate).",
            ),
            Text(
                title="二元交叉熵得到了 0 到 1 之外的值",
                why="BCELoss 要求概率和标签都在 0 到 1 之间（{words}）。常见：logits 没有过 sigmoid、标签为 2 或 255、发散后出现 NaN。",
                fix="对 logits 用 BCEWithLogitsLoss（或在 BCELoss 之前做 sigmoid），把标签缩放到 0 和 1，并检查 NaN（torch.isnan、降低学习率）。",
            ),
        ),
        "probability": (
            Text(
                title="Sampling got probabilities that are inf, NaN or negative",
                why="torch.multinomial asserts on its input. In text generation this comes from NaN or inf logits: float16 overflow (use bfloat16 or float32), a broken or wrongly quantised checkpoint, temperature 0, or several GPUs that return garbage over a broken peer-to-peer link.",
                fix="Load the model in bfloat16 or float32, check torch.isnan(logits).any(), do_sample=False to confirm, and with several GPUs try one (CUDA_VISIBLE_DEVICES=0).",
            ),
            Text(
                title="采样得到的概率含 inf、NaN 或负数",
                why="torch.multinomial 对输入做了断言。文本生成中多是 logits 出现 NaN 或 inf：float16 溢出（改用 bfloat16 或 float32）、检查点损坏或量化有误、temperature 为 0，或多卡间 P2P 异常导致数据错误。",
                fix="用 bfloat16 或 float32 加载模型，检查 torch.isnan(logits).any()，用 do_sample=False 确认；多卡时先试单卡（CUDA_VISIBLE_DEVICES=0）。",
            ),
        ),
        "index": (
            Text(
                title="An index of gather, scatter or tensor indexing is out of bounds",
                why="The kernel's check failed ({words}, {where}): an index is negative beyond the size or not smaller than it.",
                fix="Check idx.min() and idx.max() against the size of the indexed dimension just before the call; CUDA_LAUNCH_BLOCKING=1 (or the CPU) shows the line.",
            ),
            Text(
                title="gather、scatter 或张量索引的下标越界",
                why="kernel 检查失败（{words}，{where}）：下标为负且超出范围，或不小于该维大小。",
                fix="在调用前比较 idx.min()、idx.max() 与被索引维度的大小；CUDA_LAUNCH_BLOCKING=1（或在 CPU 上）能看到出错行。",
            ),
        ),
        "triton": (
            Text(
                title="A compiled (Triton) kernel found an index out of bounds",
                why="Code made by torch.compile checks indices too: an embedding lookup or gather reads beyond its table.",
                fix="Run without torch.compile and with CUDA_LAUNCH_BLOCKING=1 to see the line; check token ids against the embedding's size, labels against the classes.",
            ),
            Text(
                title="编译出的（Triton）kernel 发现下标越界",
                why="torch.compile 生成的代码同样检查下标：某个 embedding 查表或 gather 超出了表的范围。",
                fix="不用 torch.compile 并设 CUDA_LAUNCH_BLOCKING=1 运行，找到出错行；检查 token id 与 embedding 大小、标签与类别数。",
            ),
        ),
    },
)
