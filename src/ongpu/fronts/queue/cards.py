"""`ongpu queue drain|test|return GPU`: an operator's words about GPUs of this machine's queue."""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from ongpu.fronts.answer import add_language, complain, say
from ongpu.fronts.queued import add_engine, guarded, local_only, me

if TYPE_CHECKING:
    from pathlib import Path

    from ongpu.queue.job import Card

HEEDED, EVERY = 10.0, 0.1  # seconds that the daemon gets to heed an order; between two looks
TESTED = 330.0  # seconds for a test (engines/local/trial.py ends it after 300)


def add(parser: argparse.ArgumentParser) -> None:
    """The action's arguments; which one it is stands in its name."""
    name = parser.prog.split()[-1]
    gpus = parser.add_argument("gpus", nargs="+", metavar="GPU", help=say("its index or UUID; all", "序号或 UUID；all 表示全部"))
    gpus.completer = _complete  # type: ignore[attr-defined]  # argcomplete's own way
    if name == "return":
        parser.add_argument("--untested", action="store_true", help=say("yes, without a test (else: ongpu queue test GPU)", "确认不检测（否则请用：ongpu queue test GPU）"))
    if name == "test":
        parser.add_argument("--no-wait", action="store_true", help=say("do not wait for what it finds", "不等待检测结果"))
    add_engine(parser)
    add_language(parser)
    parser.set_defaults(run=guarded(run), does=name)


def _complete(prefix: str, **more: object) -> list[str]:
    """The indices of the GPUs that the queue knows. Nothing where it does not answer: a shell is waiting."""
    try:
        from ongpu.queue.engines.local import alive
        from ongpu.queue.engines.local.book import Book

        with Book(alive.folder()) as book:
            return [name for name in (*(str(card.index) for card in book.cards()), "all") if name.startswith(prefix)]
    except Exception:  # whatever it is: an error has no place in a line that is being typed
        return []


def run(options: argparse.Namespace) -> int:
    """Give the order; 0, or 1 where a test was not passed or nobody heeded it."""
    local_only(options, options.does)
    if options.does == "return" and not options.untested:
        return complain("return: a GPU comes back by a passed test: ongpu queue test GPU; without one: --untested", "return：GPU 须通过检测才能恢复：ongpu queue test GPU；不检测请加 --untested")
    from ongpu.queue.engines.local import alive, orders
    from ongpu.queue.engines.local.book import Book

    folder = alive.folder()
    with Book(folder) as book:
        there = book.cards()
    cards = list({card.id: card for name in options.gpus for card in orders.named(there, name)}.values())
    before = {card.id: orders.kept(folder, card.id) for card in cards}
    orders.give(folder, [orders.Order(card.id, options.does, me(), time.time()) for card in cards])
    alive.rouse(folder)
    end = time.monotonic() + HEEDED
    while orders.waiting(folder):
        if time.monotonic() > end:
            complain("the daemon has not heeded it yet; it is kept", "守护进程尚未处理；该操作已保存")
            return 1
        time.sleep(EVERY)
    if options.does == "test" and not options.no_wait:
        return max((_tested(folder, card, before[card.id]) for card in cards), default=0)
    done = {"drain": ("out of service on this machine", "已在本机停用"), "return": ("in service again", "已恢复使用"), "test": ("under test", "检测中")}[options.does]
    for card in cards:
        print(f"GPU {card.index}: {say(*done)}" if say("en", "zh") == "en" else f"GPU {card.index}：{say(*done)}")
    return 0


def _tested(folder: "Path", card: "Card", before: object) -> int:
    """Waits for what the test finds, and tells it; 1 where it is not passed."""
    from ongpu.queue.engines.local import orders

    if sys.stderr.isatty():
        print(say(f"GPU {card.index}: under test, some minutes at most ...", f"GPU {card.index}：检测中，最多几分钟……"), file=sys.stderr)
    end = time.monotonic() + TESTED
    while time.monotonic() < end:
        told = orders.kept(folder, card.id)
        if told and told != before:  # also of a test that was under way
            return _tell(card, told)
        time.sleep(EVERY)
    complain(f"GPU {card.index}: no answer yet; a test waits until no job is on the GPU: ongpu queue status", f"GPU {card.index}：尚无结果；检测要等其上没有作业：ongpu queue status")
    return 1


def _tell(card: "Card", told: dict[str, Any]) -> int:
    from ongpu.queue.words import plain

    lang = say("en", "zh")
    words = {"passed": ("passed: in service again", "通过：已恢复使用"), "failed": ("failed: out of service", "未通过：已停用"),
             "unproven": ("nothing is wrong with it, but nothing here could compute on it: stays out of service", "未发现问题，但这里无法在其上计算：保持停用")}  # fmt: skip
    if card.state == "ok":  # a test that proves nothing changes nothing
        words["unproven"] = ("nothing is wrong with it, but nothing here could compute on it: stays in service", "未发现问题，但这里无法在其上计算：继续使用")
    result = str(told.get("result"))
    print(f"GPU {card.index}{say(': ', '：')}{say(*words.get(result, (result, result)))}")
    for step in told.get("steps") or ():
        if isinstance(step, dict):
            mark = "?" if step.get("ok") is None else "+" if step["ok"] else "x"
            print(f"  {mark} {plain(str(step.get(lang) or step.get('name')))}")
    return 0 if result == "passed" else 1
