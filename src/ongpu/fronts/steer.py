"""`ongpu cancel`, `ongpu hold`, `ongpu release`: jobs are told to end, to wait, or that they may start."""

import argparse
import sys

from ongpu.fronts.answer import add_language, complain, say
from ongpu.fronts.queued import NONE_SUCH, add_engine, add_ids, guarded, known, me, opened

# states that each is about; the words for what was done
ABOUT = {
    "cancel": (("waiting", "held", "starting", "running", "ending"), ("cancelled", "已取消"), ("nothing to cancel", "没有可取消的作业")),
    "hold": (("waiting",), ("held", "已挂起"), ("nothing waits", "没有等待中的作业")),
    "release": (("held",), ("released", "已解除挂起"), ("nothing is held", "没有被挂起的作业")),
}
SHOWN = 8  # ids in one line


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments; which command it is stands in its name."""
    name = parser.prog.split()[-1]
    add_ids(parser, "*", ("jobs, or arrays", "作业或数组"), ABOUT[name][0])
    parser.add_argument("--all", action="store_true", help=say("all of mine", "我的所有作业"))
    parser.add_argument("--name", metavar="NAME", help=say("all of mine that are called so", "我的所有该名称的作业"))
    add_engine(parser)
    add_language(parser)
    parser.set_defaults(run=guarded(run), does=name)


def run(options: argparse.Namespace) -> int:
    """Do it; 0, or 1 where there was nothing to do it to."""
    from ongpu.queue.job import Want

    states, done, nothing = ABOUT[options.does]
    if options.ids and (options.all or options.name):
        what = "--all" if options.all else "--name"
        return complain(f"{options.does}: either ids of jobs or {what}, not both", f"{options.does}：作业编号与 {what} 只能用其一")
    if not (options.ids or options.all or options.name):
        return complain(f"{options.does}: ids of jobs, or --all, or --name NAME", f"{options.does}：请给出作业编号，或 --all，或 --name 名称")
    _, engine = opened(options)
    if options.ids:
        jobs = known(engine, options.ids)
    else:
        jobs = list(engine.jobs(Want(states=states, user=me(), name=options.name or "", most=None)).jobs)
    fit = [job for job in jobs if job.state in states]
    if not fit:
        told = ", ".join(f"{job.id} ({_state(job.state)})" for job in jobs[:SHOWN])
        complain(f"{nothing[0]}" + (f": {told}" if told else ""), f"{nothing[1]}" + (f"：{told}" if told else ""))
        return NONE_SUCH
    getattr(engine, options.does)([job.id for job in fit])
    named = {one for text in options.ids for one in text.split(",")}
    if left := [job for job in jobs if job.state not in states and job.id in named]:  # of an array's others nobody asks
        told = ", ".join(f"{job.id} ({_state(job.state)})" for job in left[:SHOWN]) + (" ..." if len(left) > SHOWN else "")
        complain(f"not {done[0]}: {told}", f"未处理：{told}")
    if len(fit) > SHOWN:  # as they were asked for
        shown = say(f"{len(fit)} jobs", f"{len(fit)} 个作业") + (f" ({', '.join(options.ids[:SHOWN])})" if options.ids else "")
    else:
        shown = ", ".join(job.id for job in fit)
    print(f"ongpu: {say(*done)}{say(': ', '：')}{shown}", file=sys.stderr)
    return 0


def _state(name: str) -> str:
    from ongpu.queue.words import state

    return state(name, say("en", "zh"))

