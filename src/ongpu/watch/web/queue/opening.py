"""Which queue the dashboard shows: the one of the user who runs it, by `queue.toml`; beside a simulated node a made-up one."""

import os
from collections.abc import Callable, Iterator

from ongpu.queue import config
from ongpu.queue.config import Cost
from ongpu.queue.cost import price
from ongpu.queue.engines import Engine, EngineError, engine
from ongpu.queue.engines.local.engine import Local
from ongpu.queue.job import Told
from ongpu.watch.web.queue.reading import Queue
from ongpu.watch.web.reading import Reader


def may_submit(loopback: bool, told: bool | None) -> bool:
    """Whether jobs may be submitted. Elsewhere than on loopback the token also lets people read, and root's jobs might do anything: both
    only where the configuration says so."""
    if told is not None:
        return told
    return loopback and hasattr(os, "geteuid") and os.geteuid() != 0


def priced(cost: Cost) -> Callable[[str, float, float | None], float | None]:
    """What GPU hours of a model and kWh come to; None where nobody set a price."""

    def of_run(model: str, hours: float, kwh: float | None) -> float | None:
        rent = price(model, cost)
        parts = [None if rent is None else rent * hours, None if cost.kwh is None or kwh is None else cost.kwh * kwh]
        known = [part for part in parts if part is not None]
        return sum(known) if known else None

    return of_run


def past(since: float) -> Iterator[Told]:
    """The runs of the local queue that ended after that time."""
    from ongpu.queue.engines.local import alive
    from ongpu.queue.engines.local.book import Book

    try:
        book = Book(alive.folder())
    except EngineError as error:
        if getattr(error, "kind", "") == "missing":  # nobody has submitted anything yet
            return
        raise
    with book:
        yield from book.history(since)


def of(reader: Reader, submits: bool) -> Queue:
    """The queue beside that store; it is opened when somebody asks."""

    def begin(queue: Queue) -> Engine:
        if reader.view().demo:
            from ongpu.watch.web.queue.demo import opening

            queue.cost, queue.currency = priced(Cost(gpu_hour={"": 2.5})), reader.currency
            return opening()(queue)
        told = config.load()
        queue.cost, queue.currency = priced(told.cost), told.cost.currency
        if told.engine == "local":
            local = Local(told)
            queue.history, queue.terms = past, local.terms
            return local
        return engine(told.engine, told)

    return Queue(begin, submits)
