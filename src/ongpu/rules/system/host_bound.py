"""One thread of the program never waits, and its GPU has too little to do: the host sets the pace."""

from collections.abc import Iterator

from ongpu.facts.trend import Trend
from ongpu.facts.waiting import of
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(trend: Trend) -> Iterator[Finding]:
    for one in of(trend, "host"):
        yield Finding(
            subject=one.gpu.label, certainty=one.sure, severity=Severity.NOTE if one.sure is Certainty.POSSIBLE else None,
            variant=one.kind, values=one.figures, refs=one.refs, fixes=(Fix("profile-process", {"pid": one.figures["pid"]}),),
        )  # fmt: skip


RULE = Rule(
    slug="host-bound",
    layer=Layer.SYSTEM,
    severity=Severity.WARNING,
    check=check,
    settle=("py-spy top --pid PID", "ongpu explain trace.json"),
    see=("https://docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background/index.html", "https://github.com/benfred/py-spy"),
    en=Text(
        title="GPU {gpu} is busy only {use} % of the time: one thread of {program} is full ({cpu} % of a core)",
        why="What that thread does between two kernels takes longer than the kernels: Python code, launching many small kernels, an environment of reinforcement learning, decoding of tokens, metrics{power:. The card takes * W}{limit: of * W}. A faster GPU would change nothing; nor would more loader workers{workers: (it has * children, and they wait)}.",
        fix="py-spy top --pid {pid} names the function. Many small kernels: larger batches, torch.compile(mode=\"reduce-overhead\") or CUDA graphs, fused optimizers. Python between the steps: move it to processes (DataLoader workers, vectorised environments), do logging and .item() seldom. The profiler's trace tells them apart: ongpu explain trace.json.",
    ),
    zh=Text(
        title="GPU {gpu} 只有 {use} % 的时间在忙：{program} 的一个线程已占满（{cpu} % 的核）",
        why="该线程在两个 kernel 之间做的事比 kernel 本身还久：Python 代码、启动大量小 kernel、强化学习的环境、生成 token、计算指标{power:。此卡功耗 * W}{limit:（上限 * W）}。换更快的 GPU 没有用，增加加载 worker 也没有用{workers:（它有 * 个子进程，都在等）}。",
        fix="py-spy top --pid {pid} 能看出是哪个函数。小 kernel 太多：加大 batch，用 torch.compile(mode=\"reduce-overhead\") 或 CUDA graph、融合优化器。步骤之间的 Python：移到别的进程（DataLoader worker、向量化环境），少做日志和 .item()。用分析器的 trace 可以区分：ongpu explain trace.json。",
    ),
    variants={
        "alone": (
            Text(
                title="{program} computes on the processor; GPU {gpu}, on which it holds memory, does nothing",
                why="In {seconds} s next to no kernel ran, while the program kept {threads} cores busy. It starts up, prepares data, compiles or saves; or its model is on the CPU although a GPU was taken.",
                fix="If it lasts: py-spy dump --pid {pid} shows what it does. Training on the CPU by mistake: print(next(model.parameters()).device), and run ongpu lint or ongpu doctor; preparation of data: do it before, in a job without a GPU.",
            ),
            Text(
                title="{program} 在用 CPU 计算；它占着显存的 GPU {gpu} 什么也没做",
                why="{seconds} 秒内几乎没有 kernel 运行，而程序占用着 {threads} 个核。它在启动、准备数据、编译或保存；或者占了 GPU，模型却在 CPU 上。",
                fix="如果一直如此：py-spy dump --pid {pid} 能看出它在做什么。误在 CPU 上训练：print(next(model.parameters()).device)，并运行 ongpu lint 或 ongpu doctor；准备数据：提前在不带 GPU 的作业里做。",
            ),
        ),
        "threads": (
            Text(
                title="GPU {gpu} is busy only {use} % of the time: the threads of {program} use {threads} of {cores} cores",
                why="All the cores that it may use are taken by its own threads, which read next to nothing meanwhile: an optimizer or layers kept on the CPU (offloading), augmentation of data that lies in RAM, a simulation. The GPU is done before they are.",
                fix="See what they compute: perf top -p {pid}, or py-spy top --native --pid {pid}. Move it to the GPU (less offloading, augmentation on the GPU), give the job more cores, or do it before the run.",
            ),
            Text(
                title="GPU {gpu} 只有 {use} % 的时间在忙：{program} 的线程已用掉 {cores} 个核中的 {threads} 个",
                why="它能用的核都被自己的线程占满，期间几乎没有读取：放在 CPU 上的优化器或层（offload）、对内存中数据的增强、仿真。GPU 总是先做完。",
                fix="看它们在算什么：perf top -p {pid} 或 py-spy top --native --pid {pid}。移到 GPU 上（少 offload、在 GPU 上增强），给作业更多的核，或在运行前做好。",
            ),
        ),
        "crowded": (
            Text(
                title="GPU {gpu} is busy only {use} % of the time: {program} gets no processor ({busy} of {cores} cores are busy, {mine} by it)",
                why="Its main thread is ready to run at nearly every look and yet gets only {cpu} % of a core: other programs have the cores, so kernels are launched late.",
                fix="Find who takes them: top -o %CPU. Give the job cores of its own (--cpus-per-task, cpuset), lower the number of workers and of threads (OMP_NUM_THREADS) of all jobs to the number of cores, or move the others away.",
            ),
            Text(
                title="GPU {gpu} 只有 {use} % 的时间在忙：{program} 抢不到 CPU（{cores} 个核中有 {busy} 个在忙，它自己用 {mine} 个）",
                why="几乎每次观察时它的主线程都在等待运行，却只得到 {cpu} % 的核：核被其他程序占着，kernel 启动得晚。",
                fix="看谁占着：top -o %CPU。给作业分配专用的核（--cpus-per-task、cpuset），把所有作业的 worker 数和线程数（OMP_NUM_THREADS）降到核数以内，或移走其他程序。",
            ),
        ),
    },
)
