"""A kernel found an index, label or value out of range."""

import ast
from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.dryrun import DryRun
from ongpu.facts.dryrun_parts import Indices
from ongpu.facts.dtypes import SAME, Dtypes, first_layer
from ongpu.facts.environment import Variables
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Const, Dataset, Items, Loader, Module, Tensor, Value
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(
    symptoms: Symptoms | None, traceback: Traceback | None, dryrun: DryRun | None, variables: Variables | None, program: Program | None
) -> Iterator[Finding]:
    # of a run that did not get through a step, a loop may only have gone on for ever by an assumed value
    found = [_in_run(index) for index in dryrun.indices] if dryrun and (dryrun.ran or dryrun.outcome == "error") else []
    found += [finding for script in program.scripts for finding in _in_source(script)] if program else []
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


GROWS = (".add_tokens", ".add_special_tokens")
USUAL = ("[pad]", "[cls]", "[sep]", "[mask]", "[unk]", "<pad>", "<s>", "</s>", "<unk>", "<mask>", "<|endoftext|>", "<eos>", "<bos>", "<|pad|>")
LABELLED = ("cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss")


def _in_source(script: Script) -> Iterator[Finding]:
    """Ids and labels that are provably out of range."""
    yield from _grown(script)
    dtypes = Dtypes(script)
    for call in distinct(script.calls("forward")):
        layer = first_layer(call.receiver) if isinstance(call.receiver, Module) else None
        if layer is not None and layer.name == "torch.nn.Embedding" and layer.made and call.args:
            rows, most = _number(layer.made.arg(0, "num_embeddings")), dtypes.bound(call.args[0])
            if rows and most and most[0] >= rows:
                yield _beyond(call, layer.made, most, rows, "source-ids")
    for call in distinct(script.calls("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss", "forward")):
        name = call.name if call.name != "forward" else getattr(call.receiver, "name", "")
        if not name.endswith(LABELLED) or len(call.args) < 2:
            continue
        last, most = _last_layer(call.args[0]), dtypes.bound(call.args[1]) or _loaded(call, dtypes)
        last = last or _drawn(call.args[0], dtypes)
        classes = _number(last.arg(1, "out_features")) if last and last.name == "torch.nn.Linear" else _width(last) if last else 0
        if last and classes and most and most[0] >= classes:
            yield _beyond(call, last, most, classes, "source-labels")
        negative = _negative(script, call, name)
        if negative:
            yield Finding(
                certainty=Certainty.LIKELY, variant="source-negative", subject=call.words(), values={"value": negative.value.value if isinstance(negative.value, Const) else "?", "line": call.line},
                refs=(negative.ref(), call.ref()),
            )


def _drawn(logits: Value, dtypes: Dtypes) -> Event | None:
    """The call that made these logits with a shape that it writes out: torch.rand([210, 6]), as reports of a fault do."""
    for _ in range(20):
        made = dtypes.made(logits)
        if made is None or made.name not in (*SAME, ".float") or made.name in (".view", ".reshape", ".flatten", ".permute", ".transpose", ".unsqueeze", ".squeeze"):
            return made if made is not None and made.name in ("torch.rand", "torch.randn", "torch.zeros", "torch.ones", "torch.empty") else None
        logits = made.receiver or logits
    return None


def _width(made: Event) -> int:
    """The second dimension of a matrix that is made with a shape."""
    shape = made.args[0].items if made.args and isinstance(made.args[0], Items) else list(made.args)
    return _number(shape[1]) if len(shape) == 2 else 0


def _loaded(call: Event, dtypes: Dtypes) -> tuple[int, Event] | None:
    """The bound of labels that a loader takes out of a TensorDataset, by their place in the loop's target."""
    node, loop = call.given(1, "target"), call.loop
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if "." + node.func.attr not in (*SAME, ".long"):
            return None
        node = node.func.value
    dataset = loop.over.dataset if loop is not None and isinstance(loop.over, Loader) else None
    if not isinstance(node, ast.Name) or loop is None or not isinstance(dataset, Dataset) or dataset.cls != "torch.utils.data.TensorDataset":
        return None
    if node.id not in loop.targets or len(loop.targets) != len(dataset.items):
        return None
    return dtypes.bound(dataset.items[loop.targets.index(node.id)])


def _beyond(call: Event, layer: Event, most: tuple[int, Event], rows: int, variant: str) -> Finding:
    values = {"most": most[0], "rows": rows, "last": rows - 1, "code": layer.words(60), "line": call.line}
    return Finding(certainty=Certainty.LIKELY, variant=variant, subject=call.words(), values=values, refs=(call.ref(), layer.ref(), most[1].ref()))


def _negative(script: Script, call: Event, name: str) -> Event | None:
    """labels[mask] = -1, where the loss ignores -100 only."""
    loss = call if call.name != "forward" else call.receiver.made if isinstance(call.receiver, Module) else None
    if loss is None or loss.stars or loss.arg(None, "ignore_index") is not None or len(loss.args) > (3 if call.name != "forward" else 2):
        return None
    for event in script.of("setitem"):
        value = event.value.value if isinstance(event.value, Const) else None
        labels = call.args[1]
        given = getattr(event.stmt, "value", None)  # written out there, not handed in from elsewhere
        marked = isinstance(given, ast.UnaryOp) and type(value) is int and value < 0 and value != -100 and event.before(call) and isinstance(event.receiver, Tensor)
        if marked and isinstance(labels, Tensor) and event.receiver is not None and labels.comes_from(event.receiver):
            return event
    return None


def _grown(script: Script) -> Iterator[Finding]:
    """A vocabulary that grows after the embedding was made for it, and an embedding that nobody resizes."""
    if script.says("resize_token_embeddings", "resize_embeddings", "resize_position"):
        return
    for grow in distinct(script.calls(*GROWS)):
        rows = next((e for e in script.calls("torch.nn.Embedding") if e.before(grow) and _counts(script, e.arg(0, "num_embeddings"), grow.receiver)), None)
        used = rows is not None and any(grow.before(f) and _part(rows.value, f.receiver) for f in script.calls("forward"))
        if rows is not None and used:
            yield Finding(certainty=Certainty.LIKELY, variant="source-grown", subject=grow.words(), values={"code": grow.words(60), "made": rows.words(60)}, refs=(grow.ref(), rows.ref()))
            continue
        made = next((e for e in script.calls() if e.value is grow.receiver), None)
        if made is None or not made.name.endswith(".from_pretrained") or "Tokenizer" not in made.name:
            continue
        model = next((e for e in script.calls() if e.name.endswith("from_pretrained") and isinstance(e.value, Module) and "Tokenizer" not in e.name), None)
        words = _words(grow.arg(0))
        new = [w for w in words if w.lower() not in USUAL]
        if model is not None and words and "transformers" in script.imports:
            yield Finding(
                certainty=Certainty.LIKELY if new else Certainty.POSSIBLE, severity=Severity.WARNING if new else Severity.NOTE, variant="source-tokens",
                subject=grow.words(), values={"code": grow.words(60), "made": model.words(60), "words": (new or words)[:4]}, refs=(grow.ref(), model.ref()),
            )


def _part(layer: Value | None, model: Value | None) -> bool:
    return isinstance(layer, Module) and isinstance(model, Module) and layer.root is model.inner.root


def _counts(script: Script, number: Value | None, vocabulary: Value | None) -> bool:
    """Whether that number is the length of the vocabulary (or of one of its attributes)."""
    for e in script.calls("len"):
        if e.value is number and e.args and vocabulary is not None:
            return e.args[0] is vocabulary or any(v is e.args[0] for v in (getattr(vocabulary, "attrs", None) or {}).values())
    return False


def _words(value: Value | None) -> list[str]:
    if isinstance(value, Const):
        return [value.value] if isinstance(value.value, str) else []
    return [word for item in value.items for word in _words(item)] if isinstance(value, Items) else []


def _number(value: Value | None) -> int:
    return value.value if isinstance(value, Const) and type(value.value) is int else 0


def _last_layer(logits: Value) -> Event | None:
    """The Linear layer whose output these are."""
    made = logits.made if isinstance(logits, Tensor) and logits.origin == "output" else None
    layer = made.receiver if made is not None and made.name == "forward" else None
    while isinstance(layer, Module) and layer.name == "torch.nn.Sequential" and layer.attrs:
        layer = list(layer.attrs.values())[-1]
    return layer.made if isinstance(layer, Module) and layer.name == "torch.nn.Linear" else None


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
        "source-ids": (
            Text(
                title="Ids up to {most} go into an embedding of {rows} rows: the highest that it has is {last}",
                why="An index beyond the table is an assertion of the kernel on the GPU (device-side assert), after which nothing in this process works any more; on the CPU it is an IndexError. The table: {code}.",
                fix="Make the embedding as large as the vocabulary (the highest id + 1), or bring the ids into its range.",
            ),
            Text(
                title="embedding 只有 {rows} 行（最大编号 {last}），而 id 会到 {most}",
                why="索引超出表的范围，在 GPU 上会触发 kernel 断言（device-side assert），之后该进程里什么都不能用；在 CPU 上是 IndexError。该表：{code}。",
                fix="把 embedding 设为词表大小（最大 id + 1），或让 id 落在范围内。",
            ),
        ),
        "source-labels": (
            Text(
                title="Labels up to {most} meet an output of {rows} classes: the highest that it has is {last}",
                why="The loss checks each label on the GPU by an assertion (device-side assert), after which nothing in this process works any more. It comes from {code}.",
                fix="Give the last layer as many outputs as there are classes, or number the labels from 0 to {last}.",
            ),
            Text(
                title="输出只有 {rows} 个类别（最大标签 {last}），而标签会到 {most}",
                why="损失在 GPU 上用断言检查每个标签（device-side assert），触发之后该进程里什么都不能用。它来自 {code}。",
                fix="让最后一层的输出数等于类别数，或把标签编为 0 到 {last}。",
            ),
        ),
        "source-negative": (
            Text(
                title="Labels of {value} go into the loss, which ignores -100 only",
                why="A label below 0 that is not ignore_index is an assertion of the loss kernel (device-side assert on the GPU).",
                fix="ignore_index={value} in the loss, or mark what is to be left out with -100.",
            ),
            Text(
                title="标签 {value} 会进入损失，而它只忽略 -100",
                why="小于 0 且不等于 ignore_index 的标签会触发损失 kernel 的断言（GPU 上的 device-side assert）。",
                fix="在损失里写 ignore_index={value}，或用 -100 标记要忽略的位置。",
            ),
        ),
        "source-grown": (
            Text(
                title="{code} adds words after the embedding was made for the vocabulary as it was ({made})",
                why="The new ids lie beyond the embedding table: on the GPU that is a device-side assert, on the CPU an IndexError.",
                fix="Add the tokens first, or enlarge the embedding afterwards (copy the old rows into a larger nn.Embedding; with transformers model.resize_token_embeddings(len(tokenizer))).",
            ),
            Text(
                title="embedding 按当时的词表创建（{made}），之后 {code} 又加了词",
                why="新词的 id 超出 embedding 表：在 GPU 上是 device-side assert，在 CPU 上是 IndexError。",
                fix="先加词，或之后扩大 embedding（把旧的行复制到更大的 nn.Embedding；transformers 用 model.resize_token_embeddings(len(tokenizer))）。",
            ),
        ),
        "source-tokens": (
            Text(
                title="{code} adds tokens ({words}), and the model's embedding is not resized",
                why="New tokens get ids beyond the embedding table of {made}, unless the tokenizer had them or the table has spare rows: on the GPU that is a device-side assert.",
                fix="model.resize_token_embeddings(len(tokenizer)) after the tokens are added; for padding alone tokenizer.pad_token = tokenizer.eos_token needs no new row.",
            ),
            Text(
                title="{code} 添加了 token（{words}），而模型的 embedding 没有扩大",
                why="新 token 的 id 会超出 {made} 的 embedding 表（除非分词器原来就有，或表里有多余的行）：在 GPU 上是 device-side assert。",
                fix="添加 token 之后调用 model.resize_token_embeddings(len(tokenizer))；只为填充时，tokenizer.pad_token = tokenizer.eos_token 不需要新的行。",
            ),
        ),
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
