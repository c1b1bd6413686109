"""A program holds memory of a GPU and does nothing: a notebook that was left open, a stopped job, a server without requests."""

from collections.abc import Iterator

from ongpu.facts.trend import Trend
from ongpu.facts.waiting import BARE, Waiting, of
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(trend: Trend) -> Iterator[Finding]:
    for one in of(trend, "idle", "unseen"):
        fixes = (Fix("look-at-process", {"pid": one.figures["pid"]}),) if one.process and one.process.visible else (Fix("who-holds-gpu"),)
        yield Finding(
            subject=one.gpu.label, certainty=one.sure, severity=_weight(one), variant=one.kind, values=one.figures, refs=one.refs, fixes=fixes,
        )  # fmt: skip


def _weight(one: Waiting) -> Severity | None:
    """A server may wait on purpose, a bare context keeps little from others, and a short while is only worth a note."""
    little = (one.gpu.series("mem_used").last or BARE) < BARE
    return Severity.NOTE if little or one.sure is Certainty.POSSIBLE else None


_FIX_EN = "If nobody needs it: end it (kill {pid}), or ask {user}. In a notebook: del the model, gc.collect(), torch.cuda.empty_cache(), or shut the kernel down."
_FIX_ZH = "如果没人需要：结束它（kill {pid}），或询问 {user}。notebook 中：del 模型、gc.collect()、torch.cuda.empty_cache()，或关闭内核。"

RULE = Rule(
    slug="gpu-held-idle",
    layer=Layer.SYSTEM,
    severity=Severity.WARNING,
    check=check,
    settle=("nvidia-smi", "ps -o user,pid,stat,etime,time,cmd -p PID"),
    see=("https://docs.nvidia.com/deploy/nvml-api/structnvmlUtilization__t.html", "https://github.com/PrincetonUniversity/jobstats/issues/28"),
    en=Text(
        title="GPU {gpu} is held and idle for {idle}: {program} of {user} keeps {memory}{total: of *} GiB",
        why="No kernel ran and the program used no processor in all that time. Its memory is not free for anybody else, and a scheduler counts the GPU as taken.",
        fix=_FIX_EN,
    ),
    zh=Text(
        title="GPU {gpu} 被占着却已空闲 {idle}：{user} 的 {program} 占用 {memory}{total:/*} GiB",
        why="这段时间里没有 kernel 运行，程序也没有用 CPU。它的显存别人用不了，调度器也认为这块 GPU 已被占用。",
        fix=_FIX_ZH,
    ),
    variants={
        "notebook": (
            Text(
                title="GPU {gpu} is held and idle for {idle}: a notebook of {user} keeps {memory}{total: of *} GiB (pid {pid})",
                why="A kernel holds what its cells put on the GPU until it is shut down, also when the browser is closed.",
                fix=_FIX_EN + " Jupyter can do it by itself: --MappingKernelManager.cull_idle_timeout=3600 --MappingKernelManager.cull_connected=True.",
            ),
            Text(
                title="GPU {gpu} 被占着却已空闲 {idle}：{user} 的 notebook 占用 {memory}{total:/*} GiB（pid {pid}）",
                why="内核会一直占着单元格放到 GPU 上的东西，直到被关闭，关掉浏览器也没用。",
                fix=_FIX_ZH + "Jupyter 可以自动做到：--MappingKernelManager.cull_idle_timeout=3600 --MappingKernelManager.cull_connected=True。",
            ),
        ),
        "server": (
            Text(
                title="GPU {gpu} is idle for {idle}: the server {program} waits for requests and keeps {memory}{total: of *} GiB",
                why="A server holds its weights and its cache from its start on. Whether it is wanted, or left over, cannot be seen from here.",
                fix="If nobody sends requests: stop it, or let it unload when idle (Ollama: OLLAMA_KEEP_ALIVE; Triton: model control; vLLM: sleep mode). A small model may share a card: --gpu-memory-utilization 0.3.",
            ),
            Text(
                title="GPU {gpu} 已空闲 {idle}：服务 {program} 在等请求，占用 {memory}{total:/*} GiB",
                why="服务从启动起就占着权重和缓存。它是需要的还是遗留的，从这里看不出来。",
                fix="如果没人发请求：停掉它，或让它空闲时卸载（Ollama：OLLAMA_KEEP_ALIVE；Triton：model control；vLLM：sleep mode）。小模型可共用一块卡：--gpu-memory-utilization 0.3。",
            ),
        ),
        "debugger": (
            Text(
                title="GPU {gpu} is held and idle for {idle}: {program} of {user} stands in a debugger and keeps {memory}{total: of *} GiB",
                why="The program waits at a breakpoint or for the debugger's commands; its memory stays.",
                fix="Go on or end it there; or end it from outside: kill {pid}.",
            ),
            Text(
                title="GPU {gpu} 被占着却已空闲 {idle}：{user} 的 {program} 停在调试器里，占用 {memory}{total:/*} GiB",
                why="程序停在断点上，或在等调试器的命令；显存一直占着。",
                fix="在调试器里继续或结束；或从外部结束：kill {pid}。",
            ),
        ),
        "stopped": (
            Text(
                title="GPU {gpu} is held by {program} of {user}, which is stopped (state T) and keeps {memory}{total: of *} GiB",
                why="Ctrl-Z, SIGSTOP or a debugger stopped it: it runs no code, and all its memory stays.",
                fix="Bring it back with fg (in its shell) or kill -CONT {pid}; end it with kill {pid} and then kill -CONT {pid}.",
            ),
            Text(
                title="GPU {gpu} 被 {user} 的 {program} 占着，而它已被暂停（T 状态），占用 {memory}{total:/*} GiB",
                why="Ctrl-Z、SIGSTOP 或调试器暂停了它：不再运行任何代码，显存却全部占着。",
                fix="在它的 shell 里用 fg 或 kill -CONT {pid} 恢复；要结束：kill {pid}，再 kill -CONT {pid}。",
            ),
        ),
        "elsewhere": (
            Text(
                title="GPU {gpu} is idle for {idle}, while {program} of {user} does something else and keeps {memory}{total: of *} GiB",
                why="No kernel ran in all that time; the program uses the processor a little.",
                fix="Look at what it does (py-spy dump --pid {pid}). Work that needs no GPU for long is better done in a job without one.",
            ),
            Text(
                title="GPU {gpu} 已空闲 {idle}，{user} 的 {program} 在做别的事，占用 {memory}{total:/*} GiB",
                why="这段时间里没有 kernel 运行；程序只用了一点 CPU。",
                fix="看它在做什么（py-spy dump --pid {pid}）。长时间不需要 GPU 的工作，最好放在不带 GPU 的作业里做。",
            ),
        ),
        "unseen": (
            Text(
                title="GPU {gpu} is idle for {idle} with {memory}{total: of *} GiB taken by a program that cannot be seen from here",
                why="It belongs to another PID namespace (a container, the host) or another user's processes are hidden; what it does besides is not known.",
                fix="Look on the host: nvidia-smi, sudo fuser -v /dev/nvidia*, ps -fp PID.",
            ),
            Text(
                title="GPU {gpu} 已空闲 {idle}，却有 {memory}{total:/*} GiB 被从这里看不到的程序占用",
                why="它属于其他 PID 命名空间（容器、宿主机），或其他用户的进程被隐藏；它还在做什么无从得知。",
                fix="在宿主机上看：nvidia-smi、sudo fuser -v /dev/nvidia*、ps -fp PID。",
            ),
        ),
    },
)
