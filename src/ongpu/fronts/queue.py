"""`ongpu queue simulate`: what a policy would have done with the jobs of a trace."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ongpu.fronts.answer import add_format, add_language, complain, say

if TYPE_CHECKING:
    from ongpu.queue.simulate import Task

POLICIES = ("fifo", "easy", "sjf", "las", "srtf", "ours")
TOLD = {
    "fifo": ("first in, first out", "先到先得"),
    "easy": ("EASY backfill, durations known exactly", "EASY 回填，时长完全已知"),
    "sjf": ("shortest first, durations known exactly", "最短作业优先，时长完全已知"),
    "las": ("least attained service, two queues (Tiresias), all may be preempted", "最少已得服务，两级队列（Tiresias），均可抢占"),
    "srtf": ("shortest remaining first, durations known, all may be preempted", "最短剩余优先，时长已知，均可抢占"),
    "ours": ("ongpu's: feedback on GPU time, no durations", "ongpu 的策略：按已用 GPU 时间反馈，不知时长"),
}
COLUMNS = {
    "mean": ("mean h", "平均 h"), "p50": ("median", "中位"), "p90": ("p90", "p90"), "p99": ("p99", "p99"), "worst": ("worst", "最长"),
    "wait": ("wait h", "等待 h"), "busy": ("busy", "占用率"), "scattered": ("scattered", "分散"), "fair": ("fair", "公平"),
    "preemptions": ("preempted", "抢占"), "idle": ("idle", "空闲"),
}  # fmt: skip


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.set_defaults(run=run)
    actions = parser.add_subparsers(dest="action", required=True, metavar=say("ACTION", "操作"), title=say("actions", "操作"))
    told = ("replay a trace under several policies and compare what comes of it", "用多种策略重放一份作业记录并比较结果")
    one = actions.add_parser("simulate", help=say(*told), description=say(f"{told[0][0].upper()}{told[0][1:]}.", f"{told[1]}。"))
    one.add_argument("trace", metavar="TRACE", help=say(
        "Philly CSV, Alibaba openb CSV, sacct --parsable2, or the queue's history (JSON lines)", "Philly CSV、阿里 openb CSV、sacct --parsable2，或队列历史（JSON Lines）"))  # fmt: skip
    one.add_argument("--policy", action="append", choices=POLICIES, metavar="NAME", help=say(
        f"{', '.join(POLICIES)}; may be repeated (default: all)", f"{'、'.join(POLICIES)}；可重复（默认全部）"))  # fmt: skip
    one.add_argument("--gpus", type=whole, default=None, metavar="N", help=say("GPUs (default: so many that the load is 0.8)", "GPU 数（默认使负载为 0.8）"))
    one.add_argument("--cluster", metavar="NAME", help=say("only jobs of this virtual cluster, project or account", "只取该虚拟集群、项目或账户的作业"))
    one.add_argument("--checkpointable", type=share, metavar="SHARE", help=say("share of the jobs that can checkpoint, drawn by the seed (default: 0.5; as told in the queue's history)", "能存检查点的作业比例，按种子抽取（默认 0.5；队列历史按记录）"))  # fmt: skip
    one.add_argument("--seed", type=int, default=1, metavar="N", help=say("of that draw and of the faults (default: 1)", "抽取与故障的随机种子（默认 1）"))
    one.add_argument("--faults", type=rate, default=0.0, metavar="RATE", help=say("faults per GPU and 30 days (default: 0)", "每块 GPU 每 30 天的故障数（默认 0）"))
    one.add_argument("--plot", metavar="FILE", help=say("draw the completion times into this SVG", "把完成时间的分布画成 SVG"))
    add_format(one, ("text", "json"))
    add_language(one)


def whole(text: str) -> int:
    """A number of GPUs. Error: ValueError."""
    if not 1 <= (value := int(text)) <= 100_000:
        raise ValueError(text)
    return value


def share(text: str) -> float:
    """Between 0 and 1. Error: ValueError."""
    if not 0 <= (value := float(text)) <= 1:
        raise ValueError(text)
    return value


def rate(text: str) -> float:
    """Faults per GPU and 30 days. Error: ValueError."""
    if not 0 <= (value := float(text)) <= 100:
        raise ValueError(text)
    return value


def run(options: argparse.Namespace) -> int:
    """Replay; 0, or 2 where the trace cannot be used."""
    from ongpu.queue.figures import drawing, figures
    from ongpu.queue.placement import POLICIES as KNOWN
    from ongpu.queue.simulate import draw, machine, simulate
    from ongpu.queue.traces import TraceError, read

    try:
        trace = read(Path(options.trace), options.cluster)
    except TraceError as error:
        return complain(error.en, error.zh)
    part = options.checkpointable
    tasks = list(trace.tasks) if part is None and trace.kind == "history" else draw(trace.tasks, 0.5 if part is None else part, options.seed)
    count = options.gpus or _fitting(tasks)
    kept = [task for task in tasks if task.gpus <= count]
    if not kept:
        return complain(f"each job wants more than {count} GPUs", f"每个作业都需要超过 {count} 块 GPU")
    rows, times = {}, {}
    for name in dict.fromkeys(options.policy or POLICIES):
        if sys.stderr.isatty():
            print(f"{name} ...", end="\r", file=sys.stderr)
        result = simulate(kept, machine(count), KNOWN[name], options.faults, options.seed)
        rows[name] = figures(result, kept)
        times[name] = [time / 3600 for time in result.times.values()]
    if options.plot:
        title = f"{Path(options.trace).name} {options.cluster or ''}: {len(kept)} / {count} GPU"
        try:
            Path(options.plot).write_text(drawing(times, title, say("hours from submission to the end", "从提交到结束的小时数")), "utf-8")
        except OSError as error:
            return complain(f"{options.plot}: {error.strerror}", f"{options.plot}：{error.strerror}")
    about = {
        "kind": trace.kind, "jobs": len(kept), "gpus": count, "too_wide": len(tasks) - len(kept), "skipped": trace.skipped,
        "checkpointable": sum(task.checkpoint for task in kept) / len(kept), "seed": options.seed, "faults": options.faults,
    }  # fmt: skip
    if options.format == "json":
        print(json.dumps({**about, "policies": rows}, indent=2))
    else:
        _table(about, rows)
    return 0


def _fitting(tasks: "list[Task]") -> int:
    """So many GPUs that the load is 0.8: at least what the widest but one in a hundred wants."""
    span = max(1.0, tasks[-1].submitted - tasks[0].submitted)
    widths = sorted(task.gpus for task in tasks)
    load = sum(task.duration * task.gpus for task in tasks) / span / 0.8
    return int(max(1, min(100_000, max(load, widths[int(len(widths) * 0.99)]))))


def _table(about: dict[str, object], rows: dict[str, dict[str, float]]) -> None:
    print(say(
        f"{about['jobs']} jobs on {about['gpus']} GPUs; {about['checkpointable']:.0%} can checkpoint; {about['skipped']} rows skipped, {about['too_wide']} too wide",
        f"{about['jobs']} 个作业，{about['gpus']} 块 GPU；{about['checkpointable']:.0%} 可存检查点；跳过 {about['skipped']} 行，过宽 {about['too_wide']} 个"))  # fmt: skip
    names = [say(*words) for words in COLUMNS.values()]
    print("".join([f"{'':6}", *(_right(name, 10) for name in names)]))
    for policy, row in rows.items():
        cells = [f"{row[name]:.0%}" if name in ("busy", "scattered") else f"{row[name]:.0f}" if name in ("preemptions", "idle") else f"{row[name]:.2f}" for name in COLUMNS]
        print("".join([f"{policy:6}", *(_right(cell, 10) for cell in cells)]))
    print()
    for policy in rows:
        print(f"{policy:6}{say(*TOLD[policy])}")
    print(say("idle: decisions that left a GPU free which a waiting job could have had; scattered: gangs on more nodes than needed",
              "空闲：决策后仍有等待作业可用的空闲 GPU 的次数；分散：占用节点多于必要的多卡作业比例"))  # fmt: skip


def _right(text: str, width: int) -> str:
    wide = sum(ord(c) > 0x2E80 for c in text)
    return text.rjust(width - wide)
