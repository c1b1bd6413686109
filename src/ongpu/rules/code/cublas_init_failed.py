"""cuBLAS reports a failure; memory or a bad index is usually behind it."""

from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory
from ongpu.facts.framework import TensorFlow
from ongpu.facts.hardware import Gpus
from ongpu.facts.program import Event, Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Const, Module
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms, oom: OutOfMemory | None, gpus: Gpus | None, tensorflow: TensorFlow | None, program: Program | None) -> Iterator[Finding]:
    if not symptoms.has("cublas-error"):
        return
    status = (symptoms.value("status", "cublas-error") or "").upper()
    elsewhere = any(word in status for word in ("INVALID_VALUE", "NOT_SUPPORTED", "ARCH_MISMATCH"))
    tf = status == "" or any("stream_executor" in h.ref.quote or "tensorflow" in h.ref.quote.lower() or "handle:" in h.ref.quote for h in symptoms.seen("cublas-error"))
    full = next((g for g in gpus.gpus if g.memory_used and g.memory_total and g.memory_used > 0.92 * g.memory_total), None) if gpus else None
    two = next((pair for script in program.scripts if (pair := _two_names(script))), None) if program and not full and not elsewhere else None
    if two:
        yield Finding(
            fixes=(Fix("launch-blocking"),), certainty=Certainty.LIKELY, variant="vocabulary",
            values={"status": status or "a failure", "tokenizer": two[0].words(60), "model": two[1].words(60)},
            refs=(*symptoms.cite("cublas-error", "assertion-line"), two[0].ref(), two[1].ref()),
        )  # fmt: skip
        return
    yield Finding(
            fixes=(Fix("launch-blocking"),),
        certainty=Certainty.POSSIBLE if elsewhere else Certainty.LIKELY,
        variant="invalid" if elsewhere else "tensorflow" if tf else "full" if full else "",
        values={
            "status": status or "a failure", "gpu": full.label if full else "?",
            "used": full.memory_used if full else "?", "total": full.memory_total if full else "?",
        },
        refs=(*symptoms.cite("cublas-error", "assertion-line"), *(gpus.cite(full) if gpus and full else ())),
    )


def _two_names(script: Script) -> tuple[Event, Event] | None:
    """A tokenizer and a model that come from two names: their vocabularies may differ."""
    made = [e for e in script.calls() if e.name.endswith(".from_pretrained") and isinstance(e.arg(0, "pretrained_model_name_or_path"), Const)]
    tokenizer = next((e for e in made if "Tokenizer" in e.name), None)
    model = next((e for e in made if isinstance(e.value, Module)), None)
    if tokenizer is None or model is None or script.says("resize_token_embeddings"):
        return None
    names = [e.arg(0, "pretrained_model_name_or_path") for e in (tokenizer, model)]
    return (tokenizer, model) if len({name.value for name in names if isinstance(name, Const)}) == 2 else None


RULE = Rule(
    slug="cublas-init-failed",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    see=("https://docs.nvidia.com/cuda/cublas/#cublasstatus-t", "https://github.com/EleutherAI/lm-evaluation-harness/issues/1689",),
    en=Text(
        title="cuBLAS gave {status}: look at memory and at indices before the library",
        why="cuBLAS allocates a workspace when its handle is created. {status} is what remains visible when the card is full (the usual out-of-memory message does not appear), or when an earlier kernel failed an index check (token ids beyond the embedding, labels out of range) and killed the context.",
        fix="Run with CUDA_LAUNCH_BLOCKING=1: an assertion or another line shows a bad index. Watch nvidia-smi: near the limit it is memory (smaller batch, spread the model over more GPUs, half precision, end other processes). Only then suspect mixed CUDA libraries or a build that does not know the card.",
    ),
    zh=Text(
        title="cuBLAS 返回 {status}：先查显存和索引，再怀疑库本身",
        why="cuBLAS 创建句柄时要分配工作区。显卡占满时（通常的 out of memory 反而没有出现），或更早的 kernel 索引检查失败（token id 超出 embedding、标签越界）使上下文失效时，看到的就是 {status}。",
        fix="用 CUDA_LAUNCH_BLOCKING=1 运行：若出现断言或换了一行，就是索引问题。看 nvidia-smi：接近上限就是显存问题（减小 batch、把模型分到多卡、半精度、结束其他进程）。都排除后再怀疑混装的 CUDA 库或不支持该卡的构建。",
    ),
    variants={
        "vocabulary": (
            Text(
                title="cuBLAS gave {status}: the tokenizer and the model come from two names, so a token id may lie beyond the embedding",
                why="An index beyond the embedding's rows kills the context in an earlier kernel, and cuBLAS is the first to notice. {tokenizer} may know more tokens (vocabulary size) than {model} has rows.",
                fix="Take tokenizer and model of one release; or compare len(tokenizer) with model.get_input_embeddings().num_embeddings, and model.resize_token_embeddings(len(tokenizer)). CUDA_LAUNCH_BLOCKING=1 shows the true line. If both agree, it is memory: nvidia-smi.",
            ),
            Text(
                title="cuBLAS 返回 {status}：tokenizer 和模型来自两个名字，token id 可能超出 embedding",
                why="索引超出 embedding 行数会在更早的 kernel 里毁掉上下文，cuBLAS 只是第一个发现的。{tokenizer} 的词表（vocab）可能比 {model} 的行数大。",
                fix="tokenizer 和模型用同一个版本；或比较 len(tokenizer) 与 model.get_input_embeddings().num_embeddings，再 model.resize_token_embeddings(len(tokenizer))。CUDA_LAUNCH_BLOCKING=1 会指出真正的行。若两者一致，就是显存问题：nvidia-smi。",
            ),
        ),
        "full": (
            Text(
                title="cuBLAS gave {status} while {gpu} is full ({used} of {total} MiB)",
                why="The handle needs a workspace and there is no memory left for it; the usual out-of-memory message does not appear here.",
                fix="Free memory: smaller batch, half precision, fewer processes on the card (nvidia-smi shows them). If it stays with memory free, look for a bad index with CUDA_LAUNCH_BLOCKING=1.",
            ),
            Text(
                title="cuBLAS 返回 {status}，而 {gpu} 已满（{total} MiB 中用了 {used}）",
                why="创建句柄需要工作区，显存已没有余量；这种情况下不会出现通常的 out of memory。",
                fix="释放显存：减小 batch、半精度、减少卡上的进程（nvidia-smi 可见）。若有空闲显存仍报错，用 CUDA_LAUNCH_BLOCKING=1 查索引越界。",
            ),
        ),
        "tensorflow": (
            Text(
                title="TensorFlow could not create or use cuBLAS ({status}): usually the GPU's memory is taken already",
                why="TensorFlow reserves nearly the whole card at start; a second process (or PyTorch, another notebook) leaves cuBLAS no memory for its handle. On a card newer than the build's CUDA the same lines appear.",
                fix="End other processes on the GPU, and let memory grow: tf.config.experimental.set_memory_growth(gpu, True) or TF_FORCE_GPU_ALLOW_GROWTH=true (TF1: config.gpu_options.allow_growth = True); smaller batch. On an RTX 30 or newer use a build for CUDA 11 or newer.",
            ),
            Text(
                title="TensorFlow 无法创建或使用 cuBLAS（{status}）：通常是显存已被占用",
                why="TensorFlow 启动时几乎占用整张卡；若已有另一个进程（或 PyTorch、别的 notebook），cuBLAS 就没有显存建句柄。显卡比构建所用 CUDA 新时也会出现同样的行。",
                fix="结束 GPU 上的其他进程，并让显存按需增长：tf.config.experimental.set_memory_growth(gpu, True) 或 TF_FORCE_GPU_ALLOW_GROWTH=true（TF1：config.gpu_options.allow_growth = True）；减小 batch。RTX 30 及更新请用 CUDA 11 以上的构建。",
            ),
        ),
        "invalid": (
            Text(
                title="cuBLAS gave {status}: wrong shapes, an unsupported type, or another cuBLAS than the framework was built for",
                why="INVALID_VALUE comes from mismatched shapes or from a foreign libcublas ahead on LD_LIBRARY_PATH; NOT_SUPPORTED from a type (bfloat16, float8) that the card does not have; ARCH_MISMATCH from a card that is too old for it.",
                fix="unset LD_LIBRARY_PATH and try again; check shapes on the CPU; use float16 in place of bfloat16 on cards before Ampere. Rule out memory and a bad index with CUDA_LAUNCH_BLOCKING=1.",
            ),
            Text(
                title="cuBLAS 返回 {status}：形状不符、类型不支持，或加载了别的 cuBLAS",
                why="INVALID_VALUE 来自形状不匹配，或 LD_LIBRARY_PATH 里排在前面的外来 libcublas；NOT_SUPPORTED 来自显卡没有的类型（bfloat16、float8）；ARCH_MISMATCH 来自显卡太旧。",
                fix="unset LD_LIBRARY_PATH 后再试；在 CPU 上检查形状；Ampere 之前的卡用 float16 代替 bfloat16。再用 CUDA_LAUNCH_BLOCKING=1 排除显存和索引问题。",
            ),
        ),
    },
)
