"""`ongpu queue status`: whether the queue works: engine, daemon, configuration, each GPU, reservations, how many jobs."""

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING

from ongpu.fronts.answer import add_format, add_language, coloured, columns, say
from ongpu.fronts.page import Page, left, row
from ongpu.fronts.queued import add_engine, guarded, opened

if TYPE_CHECKING:
    from ongpu.queue.admission import Reservation
    from ongpu.queue.config import Config
    from ongpu.queue.engines import Engine
    from ongpu.queue.job import Card, Listing

LABEL = 12


def add(parser: argparse.ArgumentParser) -> None:
    """The action's arguments."""
    add_engine(parser)
    add_format(parser, ("text", "json"))
    add_language(parser)
    parser.set_defaults(run=guarded(run))


def run(options: argparse.Namespace) -> int:
    """Tell it; 0, or 1 where nothing can start."""
    from ongpu.queue.job import Want

    config, engine = opened(options)
    listing = engine.jobs(Want(most=0))
    if options.format == "json":
        print(json.dumps(_data(config, engine, listing), ensure_ascii=False, indent=2))
    else:
        page = Page(say("en", "zh"), columns(), coloured(sys.stdout))
        print("\n".join(_lines(config, engine, listing, page)))
    return 1 if listing.warning else 0


def _data(config: "Config", engine: "Engine", listing: "Listing") -> dict[str, object]:
    from ongpu.lazy import field_names

    found: dict[str, object] = {"schema": 1, "engine": engine.name, "policy": config.policy.name, "configuration": [str(path) for path in config.paths],
             "counts": dict(listing.counts)}  # fmt: skip
    if engine.name == "local":
        from ongpu.queue.engines.local import alive

        folder = alive.folder()
        found |= {"folder": str(folder), "daemon": alive.pid(folder)}
        found["reservations"] = [{key: getattr(one, key) for key in field_names(one)} for one in _kept()]
    found["advisory"] = {name: {"en": english, "zh": chinese} for name, (english, chinese) in engine.advisory.items()}
    found["gpus"] = [{name: value for name in field_names(card) if (value := getattr(card, name)) not in (None, "", ())} for card in listing.cards]
    if listing.warning:
        found["warning"] = {"en": listing.warning[0], "zh": listing.warning[1]}
    return found


def _lines(config: "Config", engine: "Engine", listing: "Listing", page: Page) -> list[str]:
    from ongpu.fronts.queue.reserve import told
    from ongpu.queue import words

    found: list[str] = []

    def put(english: str, chinese: str, text: str) -> None:
        if text:
            found.append(page.paint(left(page.say(english, chinese), LABEL), "dim") + text)

    put("engine", "引擎", engine.name)
    put("policy", "策略", config.policy.name if engine.name == "local" else "")
    put("configured", "配置", ", ".join(str(path) for path in config.paths) or page.say("nothing (defaults)", "无（默认值）"))
    kept: list[str] = []
    if engine.name == "local":
        from ongpu.queue.engines.local import alive

        folder = alive.folder()
        put("folder", "目录", str(folder))
        number = alive.pid(folder)
        none = page.say("does not run; the next ongpu submit starts it", "未运行；下次 ongpu submit 会启动")
        put("daemon", "守护进程", f"pid {number}" if number else none)
        kept = told(_kept(), time.time(), page.lang)
    comma = page.say(", ", "，")
    put("jobs", "作业", comma.join(f"{count} {words.state(name, page.lang)}" for name, count in listing.counts.items() if count) or page.say("none", "无"))
    if listing.warning:
        found += ["", *(page.paint(line, "yellow") for line in page.below(page.say(*listing.warning), 0, most=4))]
    if listing.cards:
        found += ["", *_cards(listing.cards, page)]
        if engine.name == "local" and (drained := [str(card.index) for card in listing.cards if card.state == "drained"]):
            how = f"ongpu queue test {' '.join(drained[:16])}"
            found += page.below(page.say(f"back into service after a passed test: {how}", f"检测通过后恢复使用：{how}"), 8, most=2)
    if kept:
        found += ["", page.paint(page.say("reserved", "预留"), "bold"), *("  " + line for line in kept)]
    if engine.advisory:
        found += ["", page.paint(page.say("advisory (not enforced)", "只是约定，不强制"), "bold")]
        for said in engine.advisory.values():
            found += page.below(page.say(*said), 2, most=3)
    return found


def _kept() -> "list[Reservation]":
    """The reservations that are not over."""
    from ongpu.queue.engines import EngineError
    from ongpu.queue.engines.local import alive
    from ongpu.queue.engines.local.book import Book

    try:
        with Book(alive.folder()) as book:
            return [one for one in book.reservations() if one.end > time.time()]
    except EngineError:  # none yet
        return []


def _cards(cards: "tuple[Card, ...]", page: Page) -> list[str]:
    from ongpu.queue import words

    wide = page.width - 2 - 4 - 2 - 2 - 14 - 2 - 16 - 2 - 10
    found = [page.paint(row((("GPU", 6), ("", wide), (page.say("state", "状态"), 14), (page.say("memory", "显存"), 16), (page.say("jobs", "作业"), 10))), "bold")]
    for card in cards:
        state = words.CARDS[words.condition(card)][page.lang == "zh"]
        memory = "" if card.memory is None else f"{(card.used or 0) / 1024:.1f} / {card.memory / 1024:.1f} GiB"
        cells = ((str(card.index), -4), (f"{card.node} {card.name}".strip(), wide), (state, 14), (memory, 16), (", ".join(card.jobs), 10))
        found.append("  " + row(cells))
        why = words.drained(card.drained_by, card.slug)[page.lang == "zh"] if card.drained_by else card.slug and slug(card.slug, page.lang)
        more = [why, *(words.plain(one) for one in card.foreign), card.holder and words.plain(card.holder)]
        more += [words.unexplained(card.unexplained)[page.lang == "zh"]] if card.unexplained else []
        for text in filter(None, more):
            found += page.below(text, 8, "dim", most=2)
    return found


def slug(name: str, lang: str) -> str:
    """What is wrong with a GPU: the slug, and the queue's own word on it where it has one."""
    from ongpu.queue.engines.local.cards import words

    told = words(name)
    return f"{name}{'：' if lang == 'zh' else ': '}{told[lang == 'zh']}" if told else name
