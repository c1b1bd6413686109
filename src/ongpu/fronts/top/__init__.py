"""`ongpu top`: every GPU, the processes on it, and why it is not busy; live, or once as text or JSON."""

import argparse
import os
import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ongpu.fronts.answer import add_format, add_language, coloured, columns, complain, language, say

if TYPE_CHECKING:
    from ongpu.fronts.top.live import Feeding, Live
    from ongpu.report.top.view import View

LOOK = 0.102  # seconds between the two looks of --once: a rate is told from a tenth on (watch/processes.py)
DEMO = 330.0  # seconds that the simulated node has been watched when it is first shown: long enough for all verdicts
DEMO_END = 112.0  # the second of its story that --once --demo shows: a GPU is lost, others are slow
FIRST = 20.0  # seconds that --once waits for the first look: a card without persistence mode takes long to start
LATE = 5.0  # seconds that --once waits for the last card to start, or for a list of processes
WHOLE = 2.0  # seconds from which on --once asks the doctor's own questions too: NVLink, fabric, row remapping
AFTER, MOST_AFTER = 0.005, 2000  # seconds of silence that end the last look's lines, and how many there may be
QUICK = 0.02  # seconds between two looks at the feed
# As report/top/view.py has it; this file is loaded by `ongpu --help`, which must not load the engine.
ORDERS = ("index", "util", "mem", "temp", "power", "cpu", "user", "pid")


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    once = say("print it once and end (text, or --format json)", "输出一次后退出（文本，或 --format json）")
    parser.add_argument("--once", action="store_true", help=once)
    add_format(parser, ("text", "json"))
    add_language(parser)
    user = say("only this user's processes (name or number)", "只看该用户的进程（用户名或编号）")
    parser.add_argument("--user", metavar="USER", help=user)
    shown = ", ".join(ORDERS)
    by = say(f"order: {shown} (default: index)", f"排序：{shown}（默认 index）")
    parser.add_argument("--sort", choices=ORDERS, default="index", metavar="BY", help=by)
    seconds = say(
        "how long --once looks by itself; a verdict needs 10 to be sure (default: what a running ongpu watch knows, else 0.1)",
        "--once 自行观察多久；结论要有把握需 10 秒（默认取正在运行的 ongpu watch 的结果，否则 0.1 秒）",
    )
    parser.add_argument("--seconds", type=_seconds, default=None, metavar="N", help=seconds)
    interval = say("seconds between two looks of the live view (default: 1)", "实时视图的刷新间隔（秒，默认 1）")
    parser.add_argument("--interval", type=_seconds, default=1.0, metavar="N", help=interval)
    demo = say("show a simulated node that goes through the faults; no GPU needed", "演示：模拟一个会依次出现各种故障的节点，无需 GPU")
    parser.add_argument("--demo", action="store_true", help=demo)
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")  # outside, too
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError(say("from 0.1 to 3600", "范围是 0.1 到 3600"))
    return value


def run(options: argparse.Namespace) -> int:
    """Once, or live; the exit code."""
    if options.once or options.format == "json":
        return once(options)
    if find_spec("textual") is None:
        english = "the live view needs Textual: pip install 'ongpu[top]'; without it: ongpu top --once"
        return complain(english, "实时视图需要 Textual：pip install 'ongpu[top]'；不安装也可用：ongpu top --once")
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        return complain("the live view needs a terminal; elsewhere: ongpu top --once", "实时视图需要终端；其他场合请用：ongpu top --once")
    return live(options)


def once(options: argparse.Namespace) -> int:
    """What a running watch knows, else two looks of our own; then the answer."""
    try:
        view = _simulated(DEMO, DEMO_END).view() if options.demo else _watched(options) or _looked(options.seconds or LOOK)
    except OSError as error:  # no process can be started any more: told in the form that was asked for
        from ongpu.report.top.view import View

        view = View(up=False, reason=f"{type(error).__name__}: {error}")
    from ongpu.report.top import as_json, as_text

    lang = options.lang or language()
    if options.format == "json":
        print(as_json.render(view, lang, user=options.user, by=options.sort))
    else:
        colour = coloured(sys.stdout)
        print(as_text.render(view, lang, width=columns(), colour=colour, user=options.user, by=options.sort))
    return view.exit_code()


def _watched(options: argparse.Namespace) -> "View | None":
    """The view of the agent, where one runs and nobody asked for another look."""
    if options.seconds is not None:
        return None
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    if not (os.path.exists("/var/lib/ongpu/watch.db") or os.path.exists(f"{home}/ongpu/watch.db")):
        return None
    from ongpu.fronts.top.kept import kept, places

    return kept(places())


def _looked(seconds: float) -> "View":
    """Two looks, or as many as there are in that time."""
    from ongpu.hosts.sampling.feed import Feed

    every = max(seconds, LOOK) if seconds < 1 else 1.0
    whole = 60.0 if seconds >= WHOLE else 0.0
    with Feed(every, proc_every=every, full_every=whole, options={"list_every": every}) as feed:
        feed.next(0)  # starts the child; what follows is loaded meanwhile
        from ongpu.fronts.top.live import Live

        seen = Live(every)
        _look(feed, seen, seconds)
        return seen.view()


def _simulated(seconds: float, until: float) -> "Live":
    """The simulated node as it is after so many seconds, when its story is at the second `until`; all at once."""
    from ongpu.fronts.top.live import Live
    from ongpu.hosts.sampling.demo import messages

    begin = time.time() - seconds
    now = [begin]
    seen = Live(demo=True, clock=lambda: now[0])
    for message in messages(seconds=seconds, at=begin, start=until - seconds):
        now[0] = message.get("t", now[0])
        seen.take(message)
    seen.clock = time.time
    return seen


def _look(feed: "Feeding", seen: "Live", seconds: float) -> None:
    """Until two looks at the GPUs and two at the processes are there, so far apart; or it is plain that none will come."""
    begin, looks, lists = time.monotonic(), 0, 0
    first: float | None = None
    while True:
        now = time.monotonic()
        if (first is None and now - begin > FIRST) or (first is not None and now - first > seconds + LATE):
            return
        message = feed.next(QUICK)
        seen.tick()
        if message is None:
            continue
        seen.take(message)
        kind = message.get("k")
        if kind == "bye" or (kind == "init" and message.get("code")):
            return
        if kind == "s":
            looks += 1
            if first is None:
                first = time.monotonic()
                seen.view()  # a rehearsal: what judging needs is loaded before the second look comes
                from ongpu.report.top import as_json as as_json
                from ongpu.report.top import as_text as as_text
        if kind == "p":
            lists += 1 if message.get("h") else 2  # of nobody there is no rate to be told
        ready = looks >= 2 and lists >= 2 and first is not None and time.monotonic() - first >= seconds * 0.9
        if ready and (time.monotonic() - begin > LATE or not any(g.condition == "unknown" for g in seen.state.gpus.values())):
            break
    for _ in range(MOST_AFTER):  # why something is not told comes right after the look
        if (message := feed.next(AFTER)) is None:
            break
        seen.take(message)


def live(options: argparse.Namespace) -> int:
    """The Textual view, until it is left."""
    from ongpu.fronts.top.app import Top
    from ongpu.fronts.top.live import Live
    from ongpu.hosts.sampling.feed import Feed

    seen = _simulated(DEMO, 0.0) if options.demo else Live(options.interval)
    feed = Feed(options.interval, demo=options.demo)
    app = Top(feed, seen, options.lang or language(), user=options.user, by=options.sort)
    app.run()
    return 0
