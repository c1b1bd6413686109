"""An engine in memory that keeps to the Protocol: what the commands of the queue are tested against."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ongpu.lazy import field_names, replace
from ongpu.queue.engines import EngineError
from ongpu.queue.forecast import Terms
from ongpu.queue.job import CANCELLED, HELD, LIVE, OVER, WAITING, Card, Listing, Spec, Told, Want


class Pretend:
    """Jobs only change when a test says so."""

    def __init__(self, name: str = "local") -> None:
        self.name = name
        self.honours = frozenset(field_names(Spec)) - {"command"}
        self.advisory: Mapping[str, tuple[str, str]] = {}
        self.told: dict[str, Told] = {}
        self.cards: tuple[Card, ...] = ()
        self.warning: tuple[str, str] | None = None
        self.outputs: dict[str, list[bytes]] = {}
        self.reasons: list[tuple[str, str]] = []
        self.asked = 0
        self.step: Callable[[], None] = lambda: None  # each time that somebody looks

    def put(self, id: str, state: str = WAITING, *, spec: Mapping[str, Any] | None = None, **told: Any) -> Told:
        """A job that is there."""
        whole = Spec(**{"command": ("python", "train.py"), "name": "train.py", **(spec or {})})
        self.told[id] = Told(id=id, spec=whole, state=state, **{"user": "ann", "submitted": time.time() - 600, **told})
        return self.told[id]

    def submit(self, specs: Sequence[Spec]) -> list[str]:
        first = 1 + max((int(name) for name in self.told), default=0)
        array = str(first) if specs[0].index is not None else ""
        ids = [str(first + bool(array) + place) for place in range(len(specs))]
        for name, spec in zip(ids, specs, strict=True):
            self.told[name] = Told(id=name, spec=spec, state=WAITING, user="ann", array=array, submitted=time.time())
        return ids

    def terms(self, now: float) -> Terms:
        return Terms()

    def jobs(self, want: Want) -> Listing:
        self.asked += 1
        self.step()
        kept = [
            job
            for job in self.told.values()
            if (not want.ids or {job.id, job.array} & set(want.ids))
            and (not want.states or job.state in want.states)
            and want.user in ("", job.user)
            and want.project in ("", job.spec.project)
            and want.name in ("", job.spec.name)
        ]
        groups = ([j for j in kept if j.state in LIVE and j.state not in (WAITING, HELD)], [j for j in kept if j.state in (WAITING, HELD)],
                  sorted((j for j in kept if j.state in OVER), key=lambda job: -(job.ended or 0)))  # fmt: skip
        most = want.most if not want.ids and want.most is not None else len(kept)
        counts: dict[str, int] = {}
        for job in self.told.values():
            counts[job.state] = counts.get(job.state, 0) + 1
        return Listing(jobs=(*groups[0], *groups[1][:most], *groups[2][:most]), counts=counts, cards=self.cards, warning=self.warning)

    def output(self, job: str, follow: bool = False, attempt: int | None = None) -> Iterator[bytes]:
        if job not in self.outputs:
            raise EngineError("its output is gone", "输出已不在")
        yield from self.outputs[job]

    def _set(self, jobs: Sequence[str], state: str) -> None:
        for name in jobs:
            self.told[name] = replace(self.told[name], state=state)

    def cancel(self, jobs: Sequence[str]) -> None:
        self._set(jobs, CANCELLED)

    def hold(self, jobs: Sequence[str]) -> None:
        self._set(jobs, HELD)

    def release(self, jobs: Sequence[str]) -> None:
        self._set(jobs, WAITING)

    def why(self, job: Told) -> list[tuple[str, str]]:
        return self.reasons
