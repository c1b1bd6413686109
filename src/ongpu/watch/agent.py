"""The agent: one loop over the messages of the sampling child; history, judgement, incidents, notifications and metrics hang on it.

No part stops another: what goes wrong in one is counted, told on standard error once a minute, and the loop goes on.
"""

import contextlib
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from ongpu.hosts.live import Live
from ongpu.hosts.sampling.feed import Feed
from ongpu.model import Evidence, Severity
from ongpu.store import Keep
from ongpu.watch import config as configuration
from ongpu.watch.alerts import Alert, alert, changed
from ongpu.watch.config import Config, ConfigError
from ongpu.watch.endpoint import Endpoint
from ongpu.watch.events import Events
from ongpu.watch.evidence import place_of
from ongpu.watch.history import History, opened
from ongpu.watch.incidents import FLAP_WINDOW, Answers, Change, Incident, Incidents
from ongpu.watch.judge import Judge
from ongpu.watch.known import Known
from ongpu.watch.machine import asked
from ongpu.watch.notify import Notifier, host_name
from ongpu.watch.parts import Parts
from ongpu.watch.state import GONE, SILENT, STARTING, State
from ongpu.watch.window import Window

TICK = 0.5  # seconds that the loop waits for a message
MACHINE_EVERY = 600.0  # seconds after which the machine itself is asked anew
NOW_EVERY = 1.0  # seconds between two writings of the present state, for those who read the store
LAST = 3.0  # seconds that the end waits for messages that are being sent
DEMO_HOLD, DEMO_CLEAR = 3.0, 5.0  # seconds at most: the story of the demonstration is told in three minutes


@dataclass(frozen=True)
class Options:
    """How the agent was started. out, err: where incidents, and complaints, are told. lang: the operator's language."""

    demo: bool = False
    config: Path | None = None
    store: Path | None = None
    listen: str | None = None
    lang: str = "en"
    quiet: bool = False
    dcgm_names: bool = False
    kernel_log: str | None = "/dev/kmsg"
    feed: Mapping[str, Any] | None = None  # more options of the sampling child


class Agent:
    """Everything that `ongpu watch` does. Raises ConfigError, StoreError where it cannot begin."""

    def __init__(self, options: Options, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.options, self.out = options, out or sys.stdout
        self.parts = Parts(err or sys.stderr, options.lang)
        self.config = configuration.read(options.config)
        self.host = host_name(self.config)
        path = options.store or configuration.store_path(self.config)
        self.path = path.with_name("demo.db") if options.demo and options.store is None else path
        own = options.store is None and not self.config.get("history", "path")
        self.store, said = opened(self.path, _keep(self.config), own)
        for line in said:
            self.parts.say(*line)
        self.state, self.window = State(interval=self.config.get("sample", "interval")), Window()
        self.history = History(self.store, self.config.get("sample", "interval"))
        self.machine: Sequence[Evidence] = ()
        self._asked = float("-inf")
        self.judge = Judge(self._about, lambda _, gpu: self.window.evidence({gpu.index}))
        self.judge.expected = self.config.get("sample", "gpus")
        self.events = Events()
        self.incidents, self._renewed = self._continued(), self.store.renewed
        self.notifier = Notifier(self.config, self.store, self.host)
        self.answers = Answers({}, frozenset())
        self.findings: list[dict[str, Any]] = []
        self.endpoint = Endpoint(options.listen, options.dcgm_names, self.parts.say)
        self.stopping = self.reloading = False
        self._now = float("-inf")
        self._crashed: set[str] = set()
        self.known = Known(self.store.now(), self.host)
        self.known.seed(self.state, time.time())
        self.feed = self._feed()

    # -- beginning and end

    def _feed(self) -> Feed:
        get = self.config.get
        return Feed(
            interval=get("sample", "interval"), per_call=get("sample", "per_call"), demo=self.options.demo,
            proc_every=get("sample", "processes"), full_every=get("sample", "full"), kernel_log=self.options.kernel_log,
            options=self.options.feed,
        )  # fmt: skip

    def _continued(self) -> Incidents:
        """The incidents that the store holds."""
        now = time.time()
        bodies = [*self.store.incidents(open_only=True, limit=100_000), *self.store.incidents(start=now - FLAP_WINDOW, limit=10_000)]
        known = [Incident.from_json(body) for body in bodies]
        return Incidents(time.monotonic(), now, [one for one in known if one.closed is None], known, self.row)

    def row(self, slug: str, severity: Severity) -> Alert:
        """How a slug is told here: the table, the configuration, and no long holds in a demonstration."""
        row = changed(alert(slug, severity), self.config.alerts)
        if self.options.demo:
            row = changed(row, {slug: {"hold": min(row.hold, DEMO_HOLD), "clear": min(row.clear, DEMO_CLEAR)}})
        return row

    def run(self) -> int:
        """Until a signal ends it; the exit code."""
        _on(signal.SIGTERM, self.stop)
        _on(signal.SIGINT, self.stop)
        _on(getattr(signal, "SIGHUP", None), self._hup)
        with self.parts.guard("metrics"):
            self.endpoint.open(self.config, self.host, time.monotonic())
        self._greet()
        while not self.stopping:
            self.step()
            if self.reloading:
                self.reloading = False
                with self.parts.guard("config"):
                    self.reload()
        self.close()
        return 0

    def stop(self) -> None:
        """Ends the loop."""
        self.stopping = True

    def _hup(self) -> None:
        self.reloading = True

    def reload(self) -> None:
        """Reads the configuration again; one that is wrong changes nothing."""
        try:
            new = configuration.read(self.options.config)
        except ConfigError as error:
            self.parts.say(f"{error.en}; the old configuration stays", f"{error.zh}；保留原配置")
            return
        old, self.config = self.config, new
        self.notifier.configure(new)
        self.judge.expected = new.get("sample", "gpus")
        if old.values["sample"] != new.values["sample"]:
            self.feed.close()
            self.host = host_name(new)
            self.notifier.host = self.host
            self.state.interval = new.get("sample", "interval")
            self.feed = self._feed()
        if old.values["metrics"] != new.values["metrics"]:
            self.endpoint.close()
            self.endpoint.open(new, self.host, time.monotonic())
        if old.values["history"] != new.values["history"]:
            self.parts.say("[history] takes effect at the next start", "[history] 的改动在下次启动时生效")
        self._forget([place_of(gpu) for gpu in self.state.gpus.values() if gpu.condition == GONE], time.time())
        self.parts.say("configuration read again", "已重新读取配置")

    def close(self) -> None:
        """Writes what waits, ends the child, lets go of everything."""
        with self.parts.guard("feed"):
            self.feed.close()
        end = time.monotonic() + LAST
        with self.parts.guard("notify"):
            while self.notifier.busy and time.monotonic() < end:
                time.sleep(0.05)
                self.notifier.step(time.time(), time.monotonic(), [], False)
        with self.parts.guard("metrics"):
            self.endpoint.close()
        with self.parts.guard("store"):
            self.history.close()

    # -- the loop

    def step(self) -> None:
        """One message, or a moment without one."""
        message = self._next()
        now, clock = time.time(), time.monotonic()
        changes: list[str] = []
        with self.parts.guard("state"):
            changes += self.state.take(message, now) if message else []
        with self.parts.guard("state"):
            changes += self.state.tick(now)
        with self.parts.guard("known"):
            self._forget(self.known.replaced(self.state, self.incidents.open), now)
        with self.parts.guard("window"):
            if message:
                self.window.take(message, now)
        with self.parts.guard("store"):
            self.history.step(self.state, changes, now)
            self._say(self.history.said)
        with self.parts.guard("store"):
            self._again()
        with self.parts.guard("machine"):
            self._ask(changes, clock)
        with self.parts.guard("events"):
            for event in self.events.step(changes, self.state, now):
                self.store.add_event(now, event)
        with self.parts.guard("judge"):
            self.judge.hear(changes, self.state, now)
            if (answers := self.judge.answers(self.state, now, clock)) is not None:
                self._judged(answers)
                self._incidents(now, clock, answers)
        with self.parts.guard("incidents"):
            self._incidents(now, clock, None)
        with self.parts.guard("notify"):
            well = self.state.up or self.state.reason not in (STARTING, SILENT)
            self.notifier.repeat(self.incidents.open, now)
            self.notifier.step(now, clock, [one.id for one in self.incidents.open], well)
            self._say(self.notifier.said)
            self.parts.count("notify", self.notifier.failures)
            self.notifier.failures = 0
        with self.parts.guard("metrics"):
            self.endpoint.step(clock)
            if self.endpoint.page and (changes or clock - self._now >= NOW_EVERY):
                self.endpoint.put(self.state, self._said())
        with self.parts.guard("now"):
            if clock - self._now >= NOW_EVERY:
                self._now = clock
                self.store.put_now(self._present(now))

    def _next(self) -> Mapping[str, Any] | None:
        """The next message. A feed that fails is begun anew."""
        try:
            return self.feed.next(TICK)
        except Exception as error:
            self.parts.failed("feed", error)
        with self.parts.guard("feed"):
            time.sleep(TICK)
            self.feed.close()
            self.feed = self._feed()
        return None

    def _say(self, lines: list[tuple[str, str]]) -> None:
        for line in lines:
            self.parts.say(*line)
        lines.clear()

    def _about(self) -> Sequence[Evidence]:
        """What the machine tells of itself. Of its bus only where no GPU was ever seen: of those that were, NVML tells."""
        return [item for item in self.machine if item.kind != "pci-bus" or not self.state.gpus]

    def _ask(self, changes: Sequence[str], clock: float) -> None:
        """Asks the machine about itself, in a thread: at the start, when the driver came or went, and every ten minutes."""
        due = clock - self._asked >= MACHINE_EVERY or (("up" in changes or "down" in changes) and clock - self._asked >= 5)
        if self.options.demo or not due:
            return
        self._asked = clock

        def work() -> None:
            with self.parts.guard("machine"):
                self.machine = asked(Live())

        threading.Thread(target=work, name="ongpu machine", daemon=True).start()

    def _judged(self, answers: Answers) -> None:
        wanted = {key: seen for key, seen in answers.found.items() if seen.slug not in self.config.off}
        self.answers = Answers(wanted, answers.clear, answers.noted)
        self.findings = [
            {
                "slug": seen.slug, "gpu": seen.gpu, "severity": seen.severity.name.lower(), "certainty": seen.certainty.name.lower(),
                "words": seen.diagnosis().words,
            }
            for seen in (*self.answers.found.values(), *self.answers.noted.values())
        ]  # fmt: skip
        for slug in self.judge.crashed.keys() - self._crashed:
            self._crashed.add(slug)
            what = self.judge.crashed[slug].strip().splitlines()[-1]
            english = f"the rule {slug} crashed (a bug of ongpu, please report it): {what}"
            self.parts.say(english, f"规则 {slug} 崩溃（ongpu 的缺陷，请反馈）：{what}")

    def _incidents(self, now: float, clock: float, answers: Answers | None) -> None:
        self._tell(self.incidents.step(clock, now, self.answers if answers is not None else None), now)

    def _tell(self, changes: Sequence[Change], now: float) -> None:
        """Keeps what happened to incidents, and says it."""
        kept = [self._kept(change) for change in changes]
        for change in kept:
            if not self.options.quiet and change.what != "changed":
                self._print(change)
        self.notifier.tell(kept, now)

    def _forget(self, places: Sequence[str], now: float) -> None:
        """Is not concerned any more with GPUs that were taken out or replaced."""
        for place in places:
            for index in [index for index, gpu in self.state.gpus.items() if place_of(gpu) == place]:
                del self.state.gpus[index]
            words = {"en": f"{place} is not expected any more", "zh": f"不再期望 {place}"}
            self.store.add_event(now, {"kind": "gpu", "gpu_uuid": place, "condition": "forgotten", **words})
            self._tell(self.incidents.forget(place, now), now)

    def _again(self) -> None:
        """Tells a file that was begun anew what is still so: its incidents stood in the old one."""
        if self._renewed != self.store.renewed:
            self._renewed = self.store.renewed
            for incident in self.incidents.open:
                self.store.update_incident(incident.id, incident.as_json())

    def _kept(self, change: Change) -> Change:
        """The change, written; with the number that the store gave."""
        incident = change.incident
        if change.what == "opened":
            number = self.store.open_incident(incident.opened, incident.as_json())
            self.incidents.number(incident.key, number)
            return Change("opened", Incident(**{**incident.as_json(), "id": number}))
        if change.what == "changed":
            self.store.update_incident(incident.id, incident.as_json())
        elif incident.closed is not None:
            self.store.close_incident(incident.id, incident.closed)
        return change

    # -- what is told

    def _greet(self) -> None:
        address = self.endpoint.address
        demo = (" (a simulated node)", "（模拟节点）") if self.options.demo else ("", "")
        self.parts.say(f"started{demo[0]}; history {self.path}; metrics {address}", f"已启动{demo[1]}；历史 {self.path}；指标 {address}")

    def _print(self, change: Change) -> None:
        from ongpu.watch.messages import line

        with contextlib.suppress(OSError, ValueError):
            print(line(change.what, change.incident.as_json(), self.options.lang), file=self.out, flush=True)

    def _said(self) -> Any:
        from ongpu.watch.metrics import Said

        found = self.answers.found.values()
        findings = [(one.slug, one.gpu, "" if ":" in one.place else one.place, one.severity.name.lower()) for one in found]
        counts: dict[str, int] = {}
        for incident in self.incidents.open:
            counts[incident.severity] = counts.get(incident.severity, 0) + 1
        return Said(findings, counts, dict(self.parts.errors), self.config.get("sample", "gpus"))

    def _present(self, now: float) -> str:
        """The state as JSON, with what readers of the store want besides."""
        problems = [*([self.endpoint.problem] if self.endpoint.problem else []), *self.notifier.problems.values()]
        more = {
            "written": now, "host": self.host, "findings": self.findings, "part_errors": self.parts.errors, "demo": self.options.demo,
            "problems": [{"en": english, "zh": chinese} for english, chinese in problems],
        }  # fmt: skip
        return json.dumps(more, ensure_ascii=False)[:-1] + ", " + self.state.as_json()[1:]


def _keep(config: Config) -> Keep:
    get = config.get
    return Keep(get("history", "raw"), get("history", "ten"), get("history", "five"), get("history", "megabytes") << 20)


def _on(number: Any, action: Callable[[], None]) -> None:
    """Does that at a signal; only the main thread may ask for it."""
    if number is not None and threading.current_thread() is threading.main_thread():
        signal.signal(number, lambda *_: action())
