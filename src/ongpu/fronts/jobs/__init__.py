"""`ongpu jobs`: what runs, what waits and why, what ended and how; one job wholly; live with --watch."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ongpu.fronts.answer import add_format, add_language, coloured, columns, say
from ongpu.fronts.queued import add_engine, add_ids, guarded, known, opened

if TYPE_CHECKING:
    from ongpu.fronts.page import Page
    from ongpu.queue.config import Config
    from ongpu.queue.engines import Engine
    from ongpu.queue.job import Listing

STATES = ("waiting", "held", "starting", "running", "ending", "done", "failed", "cancelled", "lost")  # queue/job.py, not loaded by --help
MOST = 10  # of each kind that are shown without --all
TOO_MANY = 20  # jobs that are asked for by id: more are told in a table


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_ids(parser, "*", ("show these; of one job all that is known, with the diagnosis of its end", "只看这些；单个作业则给出全部信息与失败诊断"))
    parser.add_argument("--all", action="store_true", help=say("every job, not only the first and the last few", "列出所有作业，而不只是前几个和最近几个"))
    parser.add_argument("--user", metavar="NAME", default="", help=say("only this user's", "只看该用户的作业"))
    parser.add_argument("--project", metavar="NAME", default="", help=say("only this project's", "只看该项目的作业"))
    parser.add_argument("--name", metavar="NAME", default="", help=say("only those of that name", "只看该名称的作业"))
    shown = ", ".join(STATES)
    parser.add_argument("--state", action="append", choices=STATES, metavar="STATE", help=say(f"only those: {shown}; may be repeated", f"只看该状态：{shown}；可重复"))
    parser.add_argument("--why", action="store_true", help=say("why each waits, and when it is expected to start", "每个作业为何等待、预计何时开始"))
    parser.add_argument("--cost", action="store_true", help=say("GPU hours, energy and cost, by job and user", "按作业和用户列出 GPU 小时、能耗与费用"))
    parser.add_argument("--watch", action="store_true", help=say("redraw each second, until Ctrl-C", "每秒刷新，按 Ctrl-C 结束"))
    add_engine(parser)
    add_format(parser, ("text", "json"))
    add_language(parser)
    parser.set_defaults(run=guarded(run))


def run(options: argparse.Namespace) -> int:
    """Print, or redraw; 0, or 1 where a job that was asked for is not known."""
    config, engine = opened(options)
    if options.watch and options.format == "text":
        from ongpu.fronts.jobs import live

        if live.possible():
            every = live.EVERY if engine.name == "local" else live.ELSEWHERE
            return live.run(lambda rows: _drawn(options, config, engine, rows), every)
    for line in _lines(options, config, engine, None):
        print(line)
    return 0


def _drawn(options: argparse.Namespace, config: "Config", engine: "Engine", rows: int) -> "Sequence[str]":
    """For a screen that is drawn again: an engine that does not answer now may do so a second later."""
    from ongpu.queue.engines import EngineError

    try:
        return _lines(options, config, engine, rows)
    except EngineError as error:
        return [say(error.english, error.chinese)]


def _lines(options: argparse.Namespace, config: "Config", engine: "Engine", rows: int | None) -> "Sequence[str]":
    """What is to be shown. rows: of the screen, where it is redrawn."""
    from ongpu.fronts.page import Page

    listing = _listing(options, engine, rows)
    if options.format == "json":
        from ongpu.fronts.jobs import as_json

        return [as_json.render(listing, engine if options.why else None, config, options.cost)]
    import sys

    page = Page(say("en", "zh"), columns(), coloured(sys.stdout))
    if options.cost:
        from ongpu.fronts.jobs import cost

        return cost.lines(listing, config, page, 1_000_000 if options.all or options.ids else 2 * MOST)
    if options.ids and len(listing.jobs) == 1:
        from ongpu.fronts.jobs import one

        return one.lines(listing.jobs[0], listing, config, engine, page)
    return _table(options, listing, engine, page, rows)


def _table(options: argparse.Namespace, listing: "Listing", engine: "Engine", page: "Page", rows: int | None) -> "Sequence[str]":
    from ongpu.fronts.jobs import table

    why = None
    if options.why:
        from ongpu.fronts.jobs import when

        why = when.reasons(listing, engine, page.lang)
    whole = options.all or bool(options.ids or options.state)
    most = 1_000_000 if whole and rows is None else MOST if rows is None else max(3, (rows - 8) // 5)
    return table.lines(listing, page, most, why)


def _listing(options: argparse.Namespace, engine: "Engine", rows: int | None) -> "Listing":
    from ongpu.lazy import replace
    from ongpu.queue.job import Want

    most = None if (options.all or options.cost) and rows is None else 50
    if not options.ids:
        want = Want(states=tuple(options.state or ()), user=options.user, project=options.project, name=options.name, most=most)
        listing = engine.jobs(want)
        counts = {state: many for state, many in listing.counts.items() if not want.states or state in want.states}
        return replace(listing, counts=counts)
    jobs = known(engine, options.ids)
    return replace(engine.jobs(Want(most=0)), jobs=tuple(jobs), counts={})
