"""An operator's words about GPUs on their way to the daemon: `ongpu queue drain|return|test GPU`. A file each, until the daemon heeded it.

In the queue's folder: `orders/`, a file for each order; `tests/<UUID>.json`, what the last test of that GPU found (trial.py).
"""

import contextlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ongpu.lazy import dataclass
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local.cards import DRAIN, RETURN, TEST
from ongpu.queue.job import Card
from ongpu.queue.words import ranges

WORDS = (DRAIN, RETURN, TEST)
FOLDER, TESTS = "orders", "tests"
MOST_BYTES = 1 << 16
MOST = 1000  # orders that are read at once


@dataclass(frozen=True, slots=True)
class Order:
    """One order. gpu: UUID; word: of WORDS; at: seconds since the epoch."""

    gpu: str
    word: str
    by: str = ""
    at: float = 0.0


def named(cards: Sequence[Card], name: str) -> list[Card]:
    """The GPUs that a person means: an index, a UUID or its beginning, "all". Raises EngineError."""
    if name.lower() == "all" and cards:
        return list(cards)
    found = [card for card in cards if str(card.index) == name or card.id.lower() == name.lower()]
    found = found or [card for card in cards if len(name) >= 4 and card.id.lower().startswith(name.lower())]
    if len(found) == 1:
        return found
    if not cards:
        raise EngineError("the queue knows of no GPU: its daemon looks for them at its start", "队列尚不知道 GPU：守护进程启动时会查找")
    if found:
        several = ", ".join(f"{card.index} ({card.id:.44})" for card in found[:4])
        raise EngineError(f"GPU {name:.40}: several begin so: {several}", f"GPU {name:.40}：有多块以此开头：{several}")
    known = ranges(card.index for card in cards)
    raise EngineError(f"GPU {name:.40}: the queue knows {known}, and their UUIDs", f"GPU {name:.40}：队列中有 {known}，也可用其 UUID")


def give(folder: Path, orders: Iterable[Order]) -> None:
    """Leaves them for the daemon, durably, in order; wake it then. Raises EngineError."""
    place = folder / FOLDER
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        for number, order in enumerate(orders):
            name = f"{time.time_ns():020}-{os.getpid()}-{number:04}"
            new = place / f".{name}"
            with open(new, "w", encoding="utf-8") as file:
                json.dump({"gpu": order.gpu, "word": order.word, "by": order.by, "at": order.at}, file)
                file.flush()
                os.fsync(file.fileno())
            os.rename(new, place / name)
    except OSError as error:
        raise EngineError(f"{place}: {error.strerror}", f"{place}：{error.strerror}") from None


def waiting(folder: Path) -> list[tuple[str, Order]]:
    """(name, order) of those that are not `heeded` yet, the oldest first. What is no order is taken away."""
    place = folder / FOLDER
    try:
        names = sorted(name for name in os.listdir(place) if not name.startswith("."))[:MOST]
    except OSError:
        return []
    found = []
    for name in names:
        order = _order(_read(place / name))
        if order:
            found.append((name, order))
        else:
            heeded(folder, [name])
    return found


def heeded(folder: Path, names: Iterable[str]) -> None:
    """These are done, and what they changed is kept: a daemon that ends between the two heeds them again, to the same end."""
    for name in names:
        with contextlib.suppress(OSError):
            os.unlink(folder / FOLDER / name)


def _order(told: Any) -> Order | None:
    if not isinstance(told, dict) or told.get("word") not in WORDS or not isinstance(told.get("gpu"), str):
        return None
    at = told.get("at")
    return Order(told["gpu"], told["word"], str(told.get("by") or "")[:80], float(at) if isinstance(at, (int, float)) else 0.0)


def keep(folder: Path, uuid: str, result: dict[str, Any]) -> None:
    """What a test found, for whoever asked for it. A disk that is full keeps the older one."""
    place = folder / TESTS
    with contextlib.suppress(OSError):
        place.mkdir(mode=0o700, exist_ok=True)
        new = place / f".{_plain(uuid)}.{os.getpid()}"
        new.write_text(json.dumps(result, ensure_ascii=False), "utf-8")
        os.rename(new, place / f"{_plain(uuid)}.json")


def kept(folder: Path, uuid: str) -> dict[str, Any] | None:
    """What the last test of that GPU found; None: none was made."""
    found = _read(folder / TESTS / f"{_plain(uuid)}.json")
    return found if isinstance(found, dict) else None


def _plain(uuid: str) -> str:
    return "".join(char if char.isalnum() or char == "-" else "_" for char in uuid)[:80]


def _read(path: Path) -> Any:
    try:
        with open(path, "rb") as file:
            return json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError):
        return None
