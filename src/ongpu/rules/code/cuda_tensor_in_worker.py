"""CUDA tensors are made in or sent from loader workers, or pinned."""

import ast
from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.intent import goes_on
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import CUDA, MAYBE, Class, Dataset, Function, Loader, Tensor
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, traceback: Traceback | None, program: Program | None) -> Iterator[Finding]:
    yield from (finding for script in program.scripts for finding in (*_in_source(script), *_held(script))) if program else ()
    if symptoms is None:
        return
    pinned = symptoms.has("pin-only-cpu")
    # the warning of a producer that ended first is printed at the end of runs that did all their work, too
    ended = symptoms.has("cuda-ipc-ended") and not goes_on(symptoms)
    shared = symptoms.has("cuda-in-worker") or ended
    inside = symptoms.has("cuda-init-in-worker") and (
        symptoms.has("worker-caught")
        or (symptoms.has("worker-cuda-told") and not symptoms.has("serving-worker"))
        or (traceback is not None and any(r.through("_utils/worker.py", "_utils/fetch.py", "__getitem__", "collate") for r in traceback.raised))
    )
    if not (pinned or shared or inside):
        return
    raised = traceback.said("pin", "initialize cuda", "initialization error", "shared cuda") if traceback else None
    yield Finding(
        certainty=Certainty.CERTAIN if pinned else Certainty.LIKELY,
        severity=None if pinned or inside or symptoms.has("cuda-in-worker") else Severity.WARNING,  # often the echo of another error, which is told first
        variant="pin" if pinned else "shared" if shared else "",
        values={"kind": symptoms.value("kind", "pin-cuda") or "a CUDA tensor", "line": raised.own()[-1].code if raised and raised.own() else "?"},
        refs=(*symptoms.cite("pin-cuda", "cuda-in-worker", "cuda-ipc-ended", "worker-caught", "cuda-init-in-worker", "worker-cuda-told", most=2), *(raised.cite() if raised else ())),
    )


def _in_source(script: Script) -> Iterator[Finding]:
    """Calls in a dataset's or collate function's code that put something on CUDA, where a loader has workers."""
    for call in distinct(script.calls()):
        frame = call.at.frame.inside("getitem", "worker", "collate")
        if frame is None or not isinstance(call.value, Tensor) or call.value.where not in (CUDA, MAYBE) or not _puts(call):
            continue
        loaders = [loader for loader in script.loaders if _feeds(loader, frame.function)]
        busy = [loader for loader in loaders if loader.workers != 0]
        if busy:
            sure = all(loader.workers for loader in busy)
            yield Finding(
                subject=call.words(),
                certainty=Certainty.LIKELY if sure else Certainty.POSSIBLE,
                variant="source",
                values={"code": call.words(60), "where": frame.function.name if frame.function else "?", "line": call.line, "workers": busy[0].workers or "?"},
                refs=(call.ref(), busy[0].made.ref()),
            )


def _held(script: Script) -> Iterator[Finding]:
    """Data sets that hold tensors on CUDA, whose samples workers hand over."""
    for loader in script.loaders:
        data = loader.dataset
        if not loader.workers or not isinstance(data, Dataset) or loader.made.stars or loader.setting("collate_fn") is not None:
            continue
        held = [(t, "") for t in data.items if isinstance(t, Tensor)] if data.cls == "torch.utils.data.TensorDataset" else []
        get = data.cls.find("__getitem__") if isinstance(data.cls, Class) else None
        if isinstance(get, Function):
            words = ast.unparse(get.node)
            held += [(t, name) for name, t in (data.attrs or {}).items() if isinstance(t, Tensor) and f"self.{name}" in words and ".cpu(" not in words]
        there = next(((t, name) for t, name in held if t.where == CUDA), None)
        if there is not None:
            made = next((one.made for one in there[0].line() if one.made is not None and one.where == CUDA), None)
            yield Finding(
                subject=loader.made.words(60), certainty=Certainty.LIKELY, variant="held",
                values={"what": f"self.{there[1]}" if there[1] else (made.words(40) if made else "a tensor"), "workers": loader.workers, "code": loader.made.words(60)},
                refs=(loader.made.ref(), *((made.ref(),) if made else ())),
            )  # fmt: skip
            return


def _puts(call: Event) -> bool:
    """Whether the call itself moves or makes it there, and does not only go on with what lies there."""
    return call.name in (".to", ".cuda") or (call.name.startswith("torch.") and call.given(None, "device") is not None)


def _feeds(loader: Loader, function: Function | None) -> bool:
    """Whether that function makes the samples or batches of the loader."""
    if function is None:
        return False
    if function is loader.setting("collate_fn"):
        return True
    cls = loader.dataset.cls if isinstance(loader.dataset, Dataset) else None
    return isinstance(cls, Class) and function.cls in (cls, *cls.own_bases)


RULE = Rule(
    slug="cuda-tensor-in-worker",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("fork-after-cuda-init",),
    see=("https://docs.pytorch.org/docs/stable/notes/multiprocessing.html", "https://docs.pytorch.org/docs/stable/data.html",),
    en=Text(
        title="A DataLoader worker uses CUDA: the data set or collate function makes GPU tensors",
        why="Workers are forked from the training process and may not use its CUDA context (\"Cannot re-initialize CUDA in forked subprocess\", \"initialization error\").{line: The line: *}",
        fix="Return CPU tensors from __getitem__ and collate_fn (no .cuda(), no device=), move the batch to the GPU in the training loop with pin_memory=True and non_blocking=True. Or num_workers=0; multiprocessing_context='spawn' only if workers must use the GPU.",
    ),
    zh=Text(
        title="DataLoader 的 worker 用了 CUDA：数据集或 collate 函数在创建 GPU 张量",
        why="worker 由训练进程 fork 而来，不能使用父进程的 CUDA 上下文（“Cannot re-initialize CUDA in forked subprocess”“initialization error”）。{line:出错行：*}",
        fix="__getitem__ 和 collate_fn 只返回 CPU 张量（不要 .cuda()、不要 device=），在训练循环中配合 pin_memory=True 和 non_blocking=True 移到 GPU。或者 num_workers=0；确需在 worker 里用 GPU 时才用 multiprocessing_context='spawn'。",
    ),
    variants={
        "source": (
            Text(
                title="{code} touches CUDA in {where}, which runs in a loader's worker process",
                why="Workers are forked by default, and CUDA cannot be used in a process forked after it was initialised; spawned ones start a CUDA context each (hundreds of MiB of GPU memory) and hand tensors over slowly.",
                fix="Let the dataset and collate_fn give CPU tensors, with pin_memory=True in the loader, and move the batch in the training loop: x = x.to(device, non_blocking=True). Or num_workers=0 if all data already lies on the GPU.",
            ),
            Text(
                title="{code} 在 {where} 中使用了 CUDA，而它运行在加载器的 worker 进程里",
                why="worker 默认由 fork 产生，而 CUDA 初始化之后 fork 出的进程不能再用 CUDA；spawn 出的每个进程则要各建一个 CUDA 上下文（数百 MiB 显存），传递张量也慢。",
                fix="让数据集和 collate_fn 返回 CPU 张量，加载器设 pin_memory=True，在训练循环里移动：x = x.to(device, non_blocking=True)。若数据本来全在 GPU 上，则设 num_workers=0。",
            ),
        ),
        "held": (
            Text(
                title="{code}: the data set holds tensors on CUDA ({what}), which {workers} worker processes would hand over",
                why="Workers are forked, and a forked process may not use the CUDA context of its parent: the first sample stops with \"Cannot re-initialize CUDA in forked subprocess\" or \"initialization error\".",
                fix="Keep the data set on the CPU and move each batch in the training loop (pin_memory=True, non_blocking=True); or num_workers=0 where all data lies on the GPU already.",
            ),
            Text(
                title="{code}：数据集里的张量在 CUDA 上（{what}），而要由 {workers} 个 worker 进程传递",
                why="worker 由 fork 产生，fork 出的进程不能使用父进程的 CUDA 上下文：取第一个样本就会报 “Cannot re-initialize CUDA in forked subprocess” 或 “initialization error”。",
                fix="数据集留在 CPU，在训练循环里移动每个 batch（pin_memory=True、non_blocking=True）；数据已全部在 GPU 上时设 num_workers=0。",
            ),
        ),
        "pin": (
            Text(
                title="pin_memory is asked for, but the batches are CUDA tensors already ({kind})",
                why="Only CPU memory can be pinned. The data set or collate function returns tensors that lie on the GPU.",
                fix="Return CPU tensors from the data set and collate_fn and keep pin_memory=True (better), or set pin_memory=False (dataloader_pin_memory=False with the Trainer).",
            ),
            Text(
                title="要求 pin_memory，但 batch 已经是 CUDA 张量（{kind}）",
                why="只有 CPU 内存可以锁页（pin）。数据集或 collate 函数返回的张量已在 GPU 上。",
                fix="让数据集和 collate_fn 返回 CPU 张量并保留 pin_memory=True（更好），或设 pin_memory=False（Trainer 用 dataloader_pin_memory=False）。",
            ),
        ),
        "shared": (
            Text(
                title="CUDA tensors are sent from one process to another and are not kept alive (or cannot be shared here)",
                why="The receiving process maps the sender's memory; the sender must live as long as it is used. Windows and some virtual machines cannot share CUDA memory between processes at all.",
                fix="Send CPU tensors between processes (.cpu() before the queue, data sets on the CPU), or keep the producer alive until the consumer is done; num_workers=0 on Windows if the data set holds CUDA tensors.",
            ),
            Text(
                title="CUDA 张量在进程间传递，但没有保持有效（或本机不支持共享）",
                why="接收方映射发送方的显存，发送方必须活到用完为止。Windows 和某些虚拟机根本不能在进程间共享 CUDA 显存。",
                fix="进程间传 CPU 张量（入队前 .cpu()，数据集放在 CPU），或让生产者活到消费者用完；数据集含 CUDA 张量时在 Windows 上用 num_workers=0。",
            ),
        ),
    },
)
