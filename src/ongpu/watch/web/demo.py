"""A made-up week of a simulated node, and the agent that goes on with it: so that the pages can be looked at without a GPU."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ongpu.hosts.sampling.demo import messages
from ongpu.store import Store
from ongpu.watch.alerts import alert
from ongpu.watch.events import Events
from ongpu.watch.history import History
from ongpu.watch.incidents import Incidents
from ongpu.watch.judge import Judge
from ongpu.watch.state import State
from ongpu.watch.window import Window

HOST = "demo-node"
HOUR, DAY = 3600.0, 86_400.0
LAST = (90.0, 120.0)  # seconds of the story that the last hour tells: a memory error, then GPU 7 falls off the bus
# From when to when (s before now), seconds between two samples, the second of the story, how fast it goes; where it stands still
# nothing is judged. The story of three minutes is told once in slow motion, a day ago.
WEEK: tuple[tuple[float, float, float, float, float], ...] = (
    (7 * DAY, 26 * HOUR, 900.0, 3.0, 0.0),
    (26 * HOUR, 24 * HOUR, 40.0, 0.0, 180 / (2 * HOUR)),
    (24 * HOUR, 6 * HOUR, 300.0, 3.0, 0.0),
    (6 * HOUR, HOUR, 120.0, 3.0, 0.0),
    (HOUR, 0.0, 15.0, LAST[0], (LAST[1] - LAST[0]) / HOUR),
)
Said = list[dict[str, Any]]


def fill(path: Path, now: float | None = None, parts: tuple[tuple[float, float, float, float, float], ...] = WEEK, gpus: int = 8) -> str:
    """Writes the past into a new store; the state at its end as `put_now` takes it. Takes some seconds for the whole week."""
    end = time.time() if now is None else now
    with Store(path) as store:
        writer = _Writer(store)
        for begin, stop, step, second, speed in parts:
            writer.part(end - begin, end - stop, step, second, speed, gpus)
        text = writer.present(end)
        store.flush()
        store.put_now(text)
        return text


class _Writer:
    """What the agent does, with a clock that is told."""

    def __init__(self, store: Store) -> None:
        self.store, self.state, self.window = store, State(), Window()
        self.history = History(store)
        self.judge = Judge(trend=lambda _, gpu: self.window.evidence({gpu.index}), every=300.0)
        self.judging = True
        self.events = Events()
        self.incidents: Incidents | None = None
        self.findings: Said = []

    def part(self, begin: float, end: float, step: float, second: float, speed: float, gpus: int) -> None:
        self.state.interval, self.judging = step, speed > 0
        self.history.meter.gap = 3 * step
        seldom = step if speed else 4 * step
        told = messages(
            seconds=end - begin, gpus=gpus, interval=step, at=begin, start=second, speed=speed, proc_every=seldom, full_every=10 * step
        )
        for message in told:
            self.take(message, message.get("t", self.state.time or begin))

    def take(self, message: dict[str, Any], now: float) -> None:
        changes = self.state.take(message, now)
        changes += self.state.tick(now)
        self.window.take(message, now)
        self.history.step(self.state, changes, now)
        for event in self.events.step(changes, self.state, now):
            self.store.add_event(now, event)
        if not self.judging:
            return
        self.judge.hear(changes, self.state, now)
        if self.incidents is None:
            self.incidents = Incidents(now, now, (), (), alert)
        answers = self.judge.answers(self.state, now, now)
        if answers:
            self.findings = [  # the notes too, as the agent tells them: that a GPU is busy is a verdict
                {"slug": one.slug, "gpu": one.gpu, "severity": one.severity.name.lower(), "certainty": one.certainty.name.lower(),
                 "words": one.diagnosis().words} for one in (*answers.found.values(), *answers.noted.values())
            ]  # fmt: skip
        for change in self.incidents.step(now, now, answers):
            incident = change.incident
            if change.what == "opened":
                self.incidents.number(incident.key, self.store.open_incident(incident.opened, incident.as_json()))
            elif change.what == "changed":
                self.store.update_incident(int(incident.id), incident.as_json())
            elif incident.closed is not None:
                self.store.close_incident(int(incident.id), incident.closed)

    def present(self, now: float) -> str:
        self.history._keep(now)
        self.history.store.rollup()
        return json.dumps({"written": now, "host": HOST, "findings": self.findings, "demo": True})[:-1] + ", " + self.state.as_json()[1:]


def agent(path: Path) -> Callable[[], None]:
    """Goes on with the story in a thread, for ever; what is given back ends it."""
    from ongpu.watch.agent import Agent, Options

    one = Agent(Options(demo=True, store=path, listen="", quiet=True, kernel_log=None, feed={"start": LAST[1]}))
    one.host = HOST
    thread = threading.Thread(target=one.run, name="ongpu demo", daemon=True)
    thread.start()

    def stop() -> None:
        one.stop()
        thread.join(5.0)

    return stop


