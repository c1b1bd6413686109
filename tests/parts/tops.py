"""`ongpu top` on the simulated node, without a child and without waiting."""

import time
from collections.abc import Mapping
from typing import Any

from ongpu.fronts.top.live import Live
from ongpu.hosts.sampling.demo import messages

AT = 1_764_500_000.0  # of the first second of the story


class Silent:
    """A feed from which nothing comes."""

    def __init__(self) -> None:
        self.closed = False

    def next(self, timeout: float) -> Mapping[str, Any] | None:
        time.sleep(min(timeout, 0.02))
        return None

    def close(self) -> None:
        self.closed = True


def live(second: float, before: float = 330.0, gpus: int = 8, processes: int | None = None, demo: bool = True) -> Live:
    """As it is at that second of the story, when it has been watched for `before` seconds before the story."""
    now = [AT - before]
    seen = Live(demo=demo, clock=lambda: now[0])
    for message in messages(seconds=before + second + 1, start=-before, gpus=gpus, at=AT - before, processes=processes):
        now[0] = message.get("t", now[0])
        seen.take(message)
    return seen
