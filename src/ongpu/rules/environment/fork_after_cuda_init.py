"""A process was forked after CUDA was initialised in its parent."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.dryrun import DryRun
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import CUDA, MAYBE, Function, Module, Tensor, Value
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, trace: Traceback | None, dryrun: DryRun | None, program: Program | None) -> Iterator[Finding]:
    failed = symptoms is not None and symptoms.has("cuda-unknown-999", "cuda-init-3", "re-init-fork")
    yield from (finding for script in program.scripts for finding in _in_source(script, failed)) if program else ()
    if dryrun and dryrun.forked:
        yield Finding(variant="run", values={"what": dryrun.forked[0].what}, refs=tuple(f.place.ref() for f in dryrun.forked[:4] if f.place))
        return
    if symptoms is None:
        return
    if not symptoms.has("re-init-fork"):
        return
    said = (symptoms.value("what", "re-init-fork") or "").lower()
    sure = "fork" in said or "poison" in said
    hint = symptoms.has("fork-hint")
    if not sure and not hint:
        return
    loader = bool(
        trace
        and any(
            "_worker_loop" in f.function or "dataloader" in f.file.lower() or "_utils/worker" in f.file
            for f in trace.frames
        )
    ) or symptoms.has("worker-caught")
    vllm = any("vllm" in hit.ref.quote.lower() for hit in symptoms.hits) or bool(
        trace and any("vllm" in f.file for f in trace.frames)
    )
    yield Finding(
        certainty=Certainty.LIKELY if loader or not sure else Certainty.CERTAIN,
        variant="loader"
        if loader
        else "server"
        if symptoms.value("what", "fork-hint") in ("gunicorn", "celery", "uwsgi")
        else "",
        values={"library": "vLLM" if vllm else "PyTorch", "server": symptoms.value("what", "fork-hint") or "?"},
        fixes=(Fix("vllm-spawn"),) if not loader else (),
        refs=symptoms.cite("re-init-fork", "fork-hint", most=2),
    )




FORKS = (
    "multiprocessing.Process", "multiprocessing.Pool", "torch.multiprocessing.Process", "torch.multiprocessing.Pool", "multiprocessing.pool.Pool",
    "concurrent.futures.ProcessPoolExecutor", "os.fork",
)  # fmt: skip
HANDED = (".map", ".submit", ".apply", ".apply_async", ".imap", ".imap_unordered", ".starmap", ".map_async")  # a pool's methods that run a function
METHODS = ("multiprocessing.set_start_method", "torch.multiprocessing.set_start_method", "multiprocessing.get_context", "torch.multiprocessing.get_context")


def _in_source(script: Script, failed: bool) -> Iterator[Finding]:
    """Processes that are forked after CUDA was used, and that use CUDA themselves. Any choice of a start method is trusted.
    failed: CUDA could not start there, so that merely counting the GPUs counts too (it starts CUDA up to PyTorch 1.13)."""
    if any(True for _ in script.calls(*METHODS)):
        return
    for fork in distinct(script.calls(*FORKS)):
        first = next((e for e in script.events if e.before(fork) and (_on_gpu(e) or (failed and e.name in COUNTS))), None)
        if first is None:
            continue
        target = fork.arg(1, "target") if fork.name.endswith("Process") else None
        given: list[Value] = [*fork.args, *(fork.kw or {}).values()]
        handed = [v for arg in given for v in (arg, *getattr(arg, "items", ())) if _there(v, fork)]
        targets = [target, *(v for e in script.calls(*HANDED) if e.receiver is fork.value and fork.order < e.order for v in e.args[:1])]
        inside = any(isinstance(t, Function) and any(e.at.frame.function is t and _on_gpu(e) for e in script.events) for t in targets)
        if handed or inside:
            yield Finding(
                certainty=Certainty.LIKELY, variant="source", values={"code": fork.words(60), "first": first.words(60), "line": fork.line},
                refs=(fork.ref(), first.ref()),
            )
            return


STARTS = (
    "torch.cuda.set_device", "torch.cuda.get_device_properties", "torch.cuda.get_device_name", "torch.cuda.current_device", "torch.cuda.init",
    "torch.cuda.mem_get_info", "torch.cuda.get_device_capability",
)  # fmt: skip
COUNTS = ("torch.cuda.device_count", "torch.cuda.is_available")


def _on_gpu(event: Event) -> bool:
    """Whether it starts CUDA: something is moved there or made there."""
    moved = isinstance(event.receiver, Module) and event.name in (".cuda", ".to") and any(m.event is event and m.device.where in (CUDA, MAYBE) for m in event.receiver.moves or ())
    return moved or (event.kind == "call" and isinstance(event.value, Tensor) and event.value.where == CUDA) or event.name in STARTS


def _there(value: Value, at: Event) -> bool:
    return (isinstance(value, Tensor) and value.where in (CUDA, MAYBE)) or (isinstance(value, Module) and value.where(at) in (CUDA, MAYBE))


RULE = Rule(
    slug="fork-after-cuda-init",
    layer=Layer.ENVIRONMENT,
    severity=Severity.ERROR,
    check=check,
    hides=("suspend-uvm-broken",),
    see=(
        "https://pytorch.org/docs/stable/notes/multiprocessing.html#cuda-in-multiprocessing",
        "https://docs.vllm.ai/en/latest/design/multiprocessing.html",
    ),
    en=Text(
        title="A worker was forked after the parent had used CUDA; it must be started with 'spawn'",
        why="A CUDA context does not survive fork(). On Linux multiprocessing forks by default, so that any CUDA call in the parent before the workers start (even is_available or device_count in older releases, or a model moved to the GPU) breaks CUDA in all of them.",
        fix="Start the workers with spawn: torch.multiprocessing.set_start_method('spawn', force=True) under if __name__ == '__main__' (DataLoader: multiprocessing_context='spawn'), and make no CUDA call in the parent before. vLLM: VLLM_WORKER_MULTIPROC_METHOD=spawn.",
    ),
    zh=Text(
        title="父进程用过 CUDA 之后才 fork 出工作进程；应改用 'spawn' 启动",
        why="CUDA 上下文不能跨越 fork()。Linux 上 multiprocessing 默认使用 fork，父进程在启动工作进程之前的任何 CUDA 调用（旧版本里连 is_available、device_count 也算，或把模型放上 GPU）都会让所有子进程无法使用 CUDA。",
        fix="用 spawn 启动：在 if __name__ == '__main__' 下 torch.multiprocessing.set_start_method('spawn', force=True)（DataLoader 用 multiprocessing_context='spawn'），且父进程在此之前不要调用 CUDA。vLLM：VLLM_WORKER_MULTIPROC_METHOD=spawn。",
    ),
    variants={
        "source": (
            Text(
                title="{code} forks a process that uses CUDA, after {first} has started it here",
                why="On Linux a process is forked by default (before Python 3.14), and a forked child cannot use CUDA once its parent has: it stops with 'Cannot re-initialize CUDA in forked subprocess', or hangs.",
                fix="torch.multiprocessing.set_start_method('spawn') under if __name__ == '__main__' (or get_context('spawn')), or touch CUDA only inside the children.",
            ),
            Text(
                title="{code} 会 fork 出使用 CUDA 的进程，而此前 {first} 已在本进程启动 CUDA",
                why="Linux 上默认用 fork 产生进程（Python 3.14 之前）。父进程用过 CUDA 之后，fork 出的子进程就不能再用：会报 Cannot re-initialize CUDA in forked subprocess，或卡住。",
                fix="在 if __name__ == '__main__' 下调用 torch.multiprocessing.set_start_method('spawn')（或 get_context('spawn')），或只在子进程里接触 CUDA。",
            ),
        ),
        "run": (
            Text(
                title="A forked process uses CUDA after its parent has used it ({what})",
                why="The dry run saw a CUDA call in a process that was forked from one with a CUDA context. On Linux multiprocessing and DataLoader workers fork by default; a CUDA context does not survive that.",
                fix="Keep CUDA out of the data set, collate function and workers (move batches in the training loop), or start them with spawn: multiprocessing_context='spawn', torch.multiprocessing.set_start_method('spawn').",
            ),
            Text(
                title="父进程用过 CUDA 之后，fork 出的子进程又使用 CUDA（{what}）",
                why="试运行看到：由已有 CUDA 上下文的进程 fork 出来的进程里调用了 CUDA。Linux 上 multiprocessing 和 DataLoader worker 默认用 fork，CUDA 上下文无法跨越 fork。",
                fix="数据集、collate 函数和 worker 里不要用 CUDA（在训练循环里移动 batch），或用 spawn 启动：multiprocessing_context='spawn'、torch.multiprocessing.set_start_method('spawn')。",
            ),
        ),
        "loader": (
            Text(
                title="CUDA is used inside forked DataLoader workers",
                why="The workers are forked from a process that already uses CUDA, and the data set or collate function creates or touches CUDA tensors there.",
                fix="Keep the data set on the CPU and move batches to the GPU in the training loop (num_workers > 0, pin_memory=True); else start the workers with multiprocessing_context='spawn', or use num_workers=0.",
            ),
            Text(
                title="在 fork 出来的 DataLoader 工作进程里使用了 CUDA",
                why="工作进程由已经使用 CUDA 的进程 fork 而来，而数据集或 collate 函数在其中创建或访问了 CUDA 张量。",
                fix="让数据集留在 CPU 上，在训练循环里再把批次搬到 GPU（num_workers > 0、pin_memory=True）；否则用 multiprocessing_context='spawn' 启动工作进程，或设 num_workers=0。",
            ),
        ),
        "server": (
            Text(
                title="{server} forks its workers after CUDA was initialised; they need 'spawn' or a late start of CUDA",
                why="With preloading, the model is put on the GPU in the parent and the workers inherit a CUDA context that does not survive fork().",
                fix="Load the model inside each worker (gunicorn without --preload; celery with --pool=solo or threads, model loaded in worker_process_init), or use the spawn start method.",
            ),
            Text(
                title="{server} 在 CUDA 初始化之后 fork 工作进程；需改用 'spawn' 或推迟 CUDA 初始化",
                why="预加载时模型在父进程里就放上了 GPU，工作进程继承到的 CUDA 上下文无法跨越 fork()。",
                fix="在每个工作进程内部加载模型（gunicorn 不用 --preload；celery 用 --pool=solo 或线程池，并在 worker_process_init 中加载），或使用 spawn 启动方式。",
            ),
        ),
    },
)
