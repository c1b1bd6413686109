"""A process was forked after CUDA was initialised in its parent."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms, trace: Traceback | None) -> Iterator[Finding]:
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


RULE = Rule(
    slug="fork-after-cuda-init",
    layer=Layer.ENVIRONMENT,
    severity=Severity.ERROR,
    check=check,
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
