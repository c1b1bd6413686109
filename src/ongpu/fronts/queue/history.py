"""`ongpu queue history`: the runs that ended, as JSON lines, for accounting and for `ongpu queue simulate`."""

import argparse
import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ongpu.fronts.answer import add_language, say
from ongpu.fronts.queued import add_engine, guarded, local_only

if TYPE_CHECKING:
    from ongpu.queue.job import Told


def add(parser: argparse.ArgumentParser) -> None:
    """The action's arguments."""
    parser.add_argument("--since", metavar="LENGTH", help=say("only the last: 7d (default: all that are kept)", "只看最近多久：7d（默认保留的全部）"))
    add_engine(parser)
    add_language(parser)
    parser.set_defaults(run=guarded(run))


def run(options: argparse.Namespace) -> int:
    """Print them, the first first; 0."""
    local_only(options, "history")
    from ongpu.queue.asked import duration

    since = time.time() - duration(options.since, "--since") if options.since else 0.0
    for line in lines(since):
        print(line)
    return 0


def lines(since: float = 0.0) -> Iterator[str]:
    """One for each run that ended after that time. Raises EngineError where there is no queue."""
    from ongpu.queue.engines.local import alive
    from ongpu.queue.engines.local.book import Book

    with Book(alive.folder()) as book:
        for told in book.history(since):
            yield json.dumps(_row(told), ensure_ascii=False)


def _row(told: "Told") -> dict[str, Any]:
    spec = told.spec
    row = {
        "id": told.id, "name": spec.name, "user": told.user, "project": spec.project, "submitted": told.submitted, "started": told.started,
        "ended": told.ended, "gpus": spec.gpus, "memory": spec.memory, "limit": spec.limit, "checkpoint": bool(spec.checkpoint) or None,
        "attempt": told.attempts, "state": told.state, "ending": told.ending, "slug": told.slug, "code": told.code, "gpu_seconds": told.attained,
        "busy": told.busy, "peak": told.peak, "energy": told.energy, "on": list(told.gpus),
    }  # fmt: skip
    return {name: value for name, value in row.items() if value not in (None, "", [])}
