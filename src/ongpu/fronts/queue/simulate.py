"""`ongpu queue simulate`: what a policy would have done with the jobs of a trace."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ongpu.fronts.answer import add_format, add_language, columns, complain, say
from ongpu.fronts.queued import guarded

if TYPE_CHECKING:
    from ongpu.queue.placement import Policy
    from ongpu.queue.simulate import Task
    from ongpu.queue.traces import Trace

POLICIES = ("fifo", "easy", "sjf", "las", "srtf", "ours")
CONFIGURED = "config"
NAMES = {
    "fifo": ("first in, first out", "先到先得"),
    "easy": ("EASY backfill, durations known exactly", "EASY 回填，时长完全已知"),
    "sjf": ("shortest first, durations known exactly", "最短作业优先，时长完全已知"),
    "las": ("least attained service, two queues (Tiresias), all may be preempted", "最少已得服务，两级队列（Tiresias），均可抢占"),
    "srtf": ("shortest remaining first, durations known, all may be preempted", "最短剩余优先，时长已知，均可抢占"),
    "ours": ("ongpu's: feedback on GPU time, no durations", "ongpu 的策略：按已用 GPU 时间反馈，不知时长"),
    CONFIGURED: ("as [policy] of the configuration says (queue.toml, or $ONGPU_QUEUE_CONFIG)", "按配置文件的 [policy]（queue.toml 或 $ONGPU_QUEUE_CONFIG）"),
}
COLUMNS = {
    "mean": ("mean", "平均"), "p50": ("median", "中位"), "p90": ("p90", "p90"), "p99": ("p99", "p99"), "worst": ("worst", "最长"),
    "wait": ("wait", "等待"), "busy": ("busy", "占用率"), "scattered": ("scattered", "分散"), "fair": ("fair", "公平"),
    "preemptions": ("preempted", "抢占"), "idle": ("idle", "空闲"),
}  # fmt: skip


def add(one: argparse.ArgumentParser) -> None:
    """The action's arguments."""
    one.set_defaults(run=guarded(run))
    one.add_argument("trace", nargs="?", metavar="TRACE", help=say(
        "Philly CSV, Alibaba openb CSV, sacct --parsable2, or what `ongpu queue history` printed (default: the history of the local queue)",
        "Philly CSV、阿里 openb CSV、sacct --parsable2，或 `ongpu queue history` 的输出（默认本机队列的历史）"))  # fmt: skip
    one.add_argument("--policy", action="append", choices=(*POLICIES, CONFIGURED), metavar="NAME", help=say(
        f"{', '.join(POLICIES)}, {CONFIGURED} (what queue.toml says); may be repeated (default: all, and {CONFIGURED} where it is another)",
        f"{'、'.join(POLICIES)}、{CONFIGURED}（按 queue.toml）；可重复（默认全部；配置另有策略时含 {CONFIGURED}）"))  # fmt: skip
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
    from ongpu.queue.simulate import draw, machine, simulate
    from ongpu.queue.traces import TraceError

    try:
        trace = _trace(options)
    except TraceError as error:
        return complain(error.en, error.zh)
    part = options.checkpointable
    tasks = list(trace.tasks) if part is None and trace.kind == "history" else draw(trace.tasks, 0.5 if part is None else part, options.seed)
    count = options.gpus or _fitting(tasks)
    kept = [task for task in tasks if task.gpus <= count]
    if not kept:
        return complain(f"each job wants more than {count} GPUs", f"每个作业都需要超过 {count} 块 GPU")
    rows, times = {}, {}
    for name, policy in _policies(options.policy).items():
        if sys.stderr.isatty():
            print(f"{name} ...", end="\r", file=sys.stderr)
        result = simulate(kept, machine(count), policy, options.faults, options.seed)
        rows[name] = figures(result, kept)
        times[name] = [time / 3600 for time in result.times.values()]
    if options.plot:
        name = " ".join(filter(None, (Path(options.trace).name if options.trace else "ongpu", options.cluster)))
        title = say(f"{name}: {len(kept)} jobs, {count} GPUs", f"{name}：{len(kept)} 个作业，{count} 块 GPU")
        axis = say("share of the jobs that ended within so many hours of their submission", "提交后这么多小时之内结束的作业比例")
        try:
            Path(options.plot).write_text(drawing(times, title, axis), "utf-8")
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


def _trace(options: argparse.Namespace) -> "Trace":
    """Of the file, else of the local queue's own history. Raises TraceError, EngineError."""
    from ongpu.queue.traces import TraceError, parse, read

    if options.trace:
        return read(Path(options.trace), options.cluster)
    from itertools import chain

    from ongpu.fronts.queue.history import lines

    runs = lines()
    if (first := next(runs, None)) is None:
        raise TraceError("no job of the local queue has run yet; name a TRACE", "本机队列还没有运行过作业；请给出 TRACE")
    return parse(chain([first], runs), options.cluster)


def _policies(asked: list[str] | None) -> "dict[str, Policy]":
    """By name, in the order in which they are shown. Raises EngineError where the configuration is wrong."""
    from ongpu.lazy import replace
    from ongpu.queue.config import load
    from ongpu.queue.placement import POLICIES as KNOWN

    found = dict(KNOWN)
    if not asked or CONFIGURED in asked:
        configured = load().policy
        if asked or configured not in KNOWN.values():
            found[CONFIGURED] = replace(configured, name=CONFIGURED)  # by its own name the simulation would take it for an oracle
    return {name: found[name] for name in dict.fromkeys(asked or (*POLICIES, CONFIGURED)) if name in found}


def _fitting(tasks: "list[Task]") -> int:
    """So many GPUs that the load is 0.8: at least what the widest but one in a hundred wants."""
    span = max(1.0, tasks[-1].submitted - tasks[0].submitted)
    widths = sorted(task.gpus for task in tasks)
    load = sum(task.duration * task.gpus for task in tasks) / span / 0.8
    return int(max(1, min(100_000, max(load, widths[int(len(widths) * 0.99)]))))


def _table(about: dict[str, object], rows: dict[str, dict[str, float]]) -> None:
    from ongpu.fronts.page import Page, right
    from ongpu.report.layout import width_of

    print(say(
        f"{about['jobs']} jobs on {about['gpus']} GPUs; {about['checkpointable']:.0%} can checkpoint; {about['skipped']} rows skipped, {about['too_wide']} too wide",
        f"{about['jobs']} 个作业，{about['gpus']} 块 GPU；{about['checkpointable']:.0%} 可存检查点；跳过 {about['skipped']} 行，过宽 {about['too_wide']} 个"))  # fmt: skip
    shown = {name: [_cell(name, row[name]) for row in rows.values()] for name in COLUMNS}
    wide = {name: max(width_of(say(*COLUMNS[name])), *map(len, cells)) + 2 for name, cells in shown.items()}
    for part in _parts(wide, columns() - 7):
        print("".join([f"{'':7}", *(right(say(*COLUMNS[name]), wide[name]) for name in part)]))
        for place, policy in enumerate(rows):
            print("".join([f"{policy:7}", *(right(shown[name][place], wide[name]) for name in part)]))
        print()
    page = Page(say("en", "zh"), columns(), False)
    for policy, row in rows.items():
        never = say(f"; {row['never']:.0f} never ended, as their GPUs failed too often", f"；{row['never']:.0f} 个作业因 GPU 屡次故障始终未完成") if row["never"] else ""
        first, *others = page.below(say(*NAMES[policy]) + never, 7, most=3)
        print("\n".join([f"{policy:7}{first[7:]}", *others]))
    legend = say("mean to wait: from submission to the end, and until the start; idle: decisions that left a GPU free which a waiting job could have "
                 "had; scattered: gangs on more nodes than needed",
                 "平均至等待：从提交到结束，以及到开始的时间；空闲：决策后仍有等待作业可用的空闲 GPU 的次数；分散：占用节点多于必要的多卡作业比例")  # fmt: skip
    print("\n".join(page.below(legend, 0, most=6)))


def _cell(name: str, value: float) -> str:
    if name in ("busy", "scattered"):
        return f"{value:.0%}"
    if name in ("preemptions", "idle"):
        return f"{value:.0f}"
    return f"{value:.2f}" if name == "fair" else _length(value)


def _length(hours: float) -> str:
    """ "7.3s", "12.0m", "3.45h"."""
    if hours < 1 / 60:
        return f"{hours * 3600:.1f}s"
    return f"{hours * 60:.1f}m" if hours < 1 else f"{hours:.2f}h"


def _parts(wide: "dict[str, int]", room: int) -> "list[list[str]]":
    """The columns, in as many tables as it takes for each to fit."""
    parts: list[list[str]] = [[]]
    for name, width in wide.items():
        if parts[-1] and sum(wide[one] for one in parts[-1]) + width > room:
            parts.append([])
        parts[-1].append(name)
    return parts
