"""`ongpu queue reserve`: GPUs that are kept for later; without arguments, those that are."""

import argparse
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ongpu.fronts.answer import add_language, complain, say
from ongpu.fronts.queued import add_engine, guarded, local_only

if TYPE_CHECKING:
    from ongpu.queue.admission import Reservation


def add(parser: argparse.ArgumentParser) -> None:
    """The action's arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help=say("what jobs name: ongpu submit --reservation NAME", "作业用 ongpu submit --reservation 名称 来使用"))
    parser.add_argument("--gpus", type=int, metavar="N", help=say("how many", "几块"))
    parser.add_argument("--begin", metavar="TIME", help=say("from: 22:00, +2h, 2026-12-01T06:00 (default: now)", "开始：22:00、+2h、2026-12-01T06:00（默认现在）"))
    parser.add_argument("--for", dest="lasts", metavar="LENGTH", help=say("how long: 4h", "时长：4h"))
    parser.add_argument("--users", default="", metavar="A,B", help=say("only these users may use it", "仅这些用户可用"))
    parser.add_argument("--projects", default="", metavar="A,B", help=say("only these projects may use it", "仅这些项目可用"))
    parser.add_argument("--cancel", action="store_true", help=say("take it back", "取消预留"))
    add_engine(parser)
    add_language(parser)
    parser.set_defaults(run=guarded(run))


def run(options: argparse.Namespace) -> int:
    """Make, take back, or list; 0, or 2."""
    local_only(options, "reserve")
    from ongpu.queue import asked
    from ongpu.queue.admission import Reservation
    from ongpu.queue.engines import EngineError
    from ongpu.queue.engines.local import alive
    from ongpu.queue.engines.local.book import Book
    from ongpu.queue.engines.local.possible import first_look
    from ongpu.queue.words import plain

    folder, now = alive.folder(), time.time()
    if not options.name:
        if options.cancel or any(value for value in (options.gpus, options.begin, options.lasts, options.users, options.projects)):
            return complain("reserve: which? ongpu queue reserve NAME ...", "reserve：哪一个？ongpu queue reserve 名称 ……")
        with Book(folder) as book:
            return show(book.reservations(), now)
    if options.cancel:
        with Book(folder) as book:
            book.unreserve(options.name)
        print(say(f"{plain(options.name)}: taken back", f"{plain(options.name)}：已取消"))
    else:
        if options.gpus is None or not options.lasts:
            return complain("reserve NAME: how many and how long: --gpus 2 --for 4h", "reserve 名称：请写明数量与时长：--gpus 2 --for 4h")
        begin = asked.moment(options.begin, now) if options.begin else now
        users, projects = (tuple(one.strip() for one in text.split(",") if one.strip()) for text in (options.users, options.projects))
        end = begin + asked.duration(options.lasts, "--for")
        kept = Reservation(name=options.name, begin=begin, end=end, gpus=options.gpus, users=users, projects=projects)
        with Book(folder, create=True) as book:
            if not book.cards():  # nobody has looked yet
                book.set_cards(first_look(), now)
            if not book.cards():
                raise EngineError("no GPU answers on this machine: nothing to reserve", "本机没有 GPU 应答：没有可预留的")
            book.reserve(kept, now)
        print(say("reserved: ", "已预留：") + told([kept], now, say("en", "zh"))[0])
    alive.wake(folder)
    return 0


def show(kept: "Iterable[Reservation]", now: float) -> int:
    """Those that are not over; 0."""
    lang = say("en", "zh")
    for line in (lines := told(kept, now, lang)):
        print(line)
    if not lines:
        print(say("nothing is reserved", "没有预留"))
    return 0


def told(kept: "Iterable[Reservation]", now: float, lang: str) -> list[str]:
    """A line for each that is not over."""
    from ongpu.fronts.page import left
    from ongpu.queue.words import plain
    from ongpu.report.layout import width_of

    zh, rows = lang == "zh", []
    for one in kept:
        if one.end > now:
            begin, end = (time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) for at in (one.begin, one.end))
            who = ", ".join((*one.users, *one.projects))
            gpus = f"{one.gpus} 块 GPU" if zh else f"{one.gpus} GPU{'s' if one.gpus > 1 else ''}"
            rows.append((plain(one.name), gpus, f"{begin} - {end}", plain(who)))
    wide = [max(width_of(row[place]) for row in rows) for place in range(2)] if rows else []
    return ["  ".join((left(row[0], wide[0]), left(row[1], wide[1]), *row[2:])).rstrip() for row in rows]
