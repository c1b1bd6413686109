"""Who is told of an incident, when, and how often: from the changes to an outbox in the store, and from there to the services.

What is in the outbox survives a restart; it is tried again, ever less often, until it was taken or is a day old. Each errand runs
in a thread of its own, by a child process under a time limit: a service that hangs holds up nothing but its own messages.
"""

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from typing import Any

from ongpu.hosts.post import MISSING, fetch, post
from ongpu.store import Store
from ongpu.watch import messages
from ongpu.watch.alerts import Label
from ongpu.watch.config import Config, Silence
from ongpu.watch.incidents import URGENCY, Change, Incident
from ongpu.watch.messages import What

FIRST, LONGEST = 5.0, 600.0  # seconds until what was not taken is tried again: the first time, and at most
OLD = 86400.0  # seconds after which a message helps nobody any more
LOOK = 60.0  # seconds after which what is silenced is looked at again: silences may end early
MOST = 500  # notices that one errand takes along
TOGETHER = 5  # different messages in one errand; what is more goes as one
Body = dict[str, Any]
Line = tuple[str, str]  # English, Chinese


@dataclass(frozen=True)
class Target:
    """One service. name: what it is called in the store and in complaints, without its secrets."""

    url: str

    @property
    def key(self) -> str:
        """The same for the same address, and nobody can tell the address from it."""
        return sha256(self.url.encode()).hexdigest()[:16]


@dataclass
class _Done:
    target: str
    rows: list[Body]
    answers: list[tuple[list[int], str | None]]  # ids of notices, and why they were not taken


class Notifier:
    """Tells people. All methods are for the agent's own thread."""

    def __init__(self, config: Config, store: Store, host: str) -> None:
        self.store, self.host = store, host
        self.said: list[Line] = []  # what is to be said to the operator
        self.sent = self.failures = 0  # failures: sendings that were not taken, heartbeats too, until somebody asks
        self.problems: dict[str, Line] = {}  # target, "" for the heartbeat -> why its last sending was not taken
        self._busy: set[str] = set()
        self._done: SimpleQueue[_Done] = SimpleQueue()
        self._due = self._looked = 0.0  # seconds since the epoch: when the outbox is to be looked at, and was last
        self._unkept: dict[int, Body] = {}  # notices that the disk has not taken yet: they go out all the same
        self._asked: tuple[float, list[Silence]] = (float("-inf"), [])  # when, and which silences the store holds
        self._last: dict[int, float] = {}  # incident -> when it was told last
        self._labels: dict[int, Label] = {}  # incident -> how urgent it was then
        self._beat = float("-inf")
        self._beating = False
        self._beats: SimpleQueue[str | None] = SimpleQueue()
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Another configuration."""
        self.config = config
        self.targets = {target.key: target for target in map(Target, config.get("notify", "urls"))}
        self.problems = {key: why for key, why in self.problems.items() if key in self.targets}
        self._beat_problem: str | None = None
        if self.targets and find_spec("apprise") is None:
            self.said.append((MISSING, "未安装 apprise：pip install 'ongpu[watch]'"))

    @property
    def busy(self) -> bool:
        """Whether something is being sent."""
        return bool(self._busy)

    # -- into the outbox

    def tell(self, changes: Iterable[Change], now: float) -> None:
        """Puts what is to be told of these changes into the outbox."""
        for change in changes:
            incident, what = change.incident, change.what
            if what == "opened":
                self._put("opened", incident, now)
            elif what == "closed":
                self._last.pop(incident.id, None)
                self._labels.pop(incident.id, None)
                if self.config.get("notify", "resolved") and not self._hushed(incident.id):
                    self._put("closed", incident, now)
            elif URGENCY.index(incident.label) > URGENCY.index(self._labels.get(incident.id, "critical")):
                self._put("worse", incident, now)

    def repeat(self, incidents: Iterable[Incident], now: float) -> None:
        """Tells again of what is critical and still open."""
        every = self.config.get("notify", "repeat")
        for incident in incidents if every else ():
            if incident.label == "critical" and abs(now - self._last.setdefault(incident.id, now)) >= every:
                self._put("repeat", incident, now)

    def _put(self, what: What, incident: Incident, now: float) -> None:
        if what != "closed":
            self._labels[incident.id] = incident.label
        if URGENCY.index(incident.label) < URGENCY.index(self.config.get("notify", "least")):
            return
        until = self._silenced(incident.slug, incident.gpu, incident.gpu_uuid, now)
        if until is not None and what != "opened":
            return
        if what != "closed":
            self._last[incident.id] = now
        due = now + self.config.get("notify", "group_wait") if until is None else min(until, now + LOOK)
        for key in self.targets:
            body = {"target": key, "what": what, "at": now, "silenced": until is not None, "incident": incident.as_json()}
            number = self.store.add_notice(due, body)
            if self.store.problem:
                self._unkept[number] = {**body, "id": number, "due": due, "tries": 0}
        self._due = min(self._due, due)

    def _silenced(self, slug: str, gpu: int | None, uuid: str | None, now: float) -> float | None:
        """Until when nobody is to be told; None: not silenced."""
        if not 0 <= now - self._asked[0] < 1:
            told = self.store.silences(now)
            asked = [Silence(str(one.get("slug") or ""), str(one.get("gpu_uuid") or ""), one["until"]) for one in told]
            self._asked = (now, asked)
        mine = {"", str(gpu), uuid or ""} if gpu is not None else {""}
        all_of_them = (*self.config.silences, *self._asked[1])
        hits = [one.until for one in all_of_them if one.until > now and one.slug in ("", slug) and one.gpu in mine]
        return max(hits, default=None)

    # -- out of it

    def step(self, now: float, clock: float, open_ids: Sequence[int], well: bool) -> None:
        """Sends what is due, and hears what became of what was sent. well: whether a heartbeat may say so. clock: monotonic."""
        self._hear(now)
        self._heartbeat(clock, well)
        if self._looked <= now < self._due:  # before the last look: the clock was set back
            return
        self._looked = now
        rows = self._outbox()
        far = now + LONGEST + self.config.get("notify", "group_wait")  # due later than that: the clock was set back
        later = [row["due"] for row in rows if now < row["due"] <= far]
        self._due = min(later, default=float("inf"))
        due = self._ready([row for row in rows if row["due"] <= now or row["due"] > far], now, open_ids)
        for key in {row["target"] for row in due}:
            if key in self._busy:  # looked at again when that is done
                continue
            mine = [row for row in due if row["target"] == key]
            groups = {_group(row) for row in mine}
            fresh = [row for row in rows if row["target"] == key and row not in mine and not row["tries"] and not _quiet(row)]
            self._send(self.targets[key], mine + [row for row in fresh if _group(row) in groups])  # what is due soon comes along

    def _outbox(self) -> list[Body]:
        kept = {row["id"]: row for row in self.store.notices(None, MOST)}
        return [*kept.values(), *(row for number, row in self._unkept.items() if number not in kept)]

    def _hushed(self, incident: int) -> bool:
        """Whether nobody was told of it yet, because it was silenced."""
        return any(row["incident"]["id"] == incident and _quiet(row) for row in self._outbox())

    def _sent(self, number: int, now: float) -> None:
        self.store.notice_sent(number, now)
        self._unkept.pop(number, None)

    def _failed(self, number: int, due: float, why: str) -> None:
        self.store.notice_failed(number, due, why)
        if row := self._unkept.get(number):
            row["due"], row["tries"], row["problem"] = due, row["tries"] + 1, why
        self._due = min(self._due, due)

    def _ready(self, rows: Sequence[Body], now: float, open_ids: Sequence[int]) -> list[Body]:
        """Those that are to be sent; the others are put off, or done with."""
        found = []
        for row in rows:
            incident = row["incident"]
            until = self._silenced(incident["slug"], incident["gpu"], incident["gpu_uuid"], now)
            over = row["what"] != "closed" and _quiet(row) and incident["id"] not in open_ids
            if row["target"] not in self.targets or now - row["at"] > OLD or over:
                self._sent(row["id"], now)  # to nobody: there is no such service any more, or it helps nobody now
            elif until is not None:
                self._failed(row["id"], min(until, now + LOOK), "silenced")
            else:
                found.append(row)
        return found

    def _send(self, target: Target, rows: list[Body]) -> None:
        groups: dict[tuple[str, str], list[Body]] = {}
        for row in rows:
            groups.setdefault(_group(row), []).append(row)
        lang = self.config.get("notify", "language")
        parts = [
            (messages.message(what, _worst_first(group), self.host, lang), [row["id"] for row in group])  # type: ignore[arg-type]
            for (what, _), group in groups.items()
        ]
        if len(parts) > TOGETHER:
            parts = [(_joined([text for text, _ in parts]), [number for _, ids in parts for number in ids])]
        limit = self.config.get("notify", "limit")
        self._busy.add(target.key)

        def work() -> None:
            try:
                answers = post(target.url, [text for text, _ in parts], limit)
            except Exception as error:  # no process can be started: tried again later
                answers = [type(error).__name__] * len(parts)
            self._done.put(_Done(target.key, rows, [(ids, why) for (_, ids), why in zip(parts, answers, strict=True)]))

        threading.Thread(target=work, name="ongpu notify", daemon=True).start()

    def _hear(self, now: float) -> None:
        while True:
            try:
                done = self._done.get_nowait()
            except Empty:
                return
            self._busy.discard(done.target)
            self._due = min(self._due, now)
            tries = {row["id"]: row["tries"] for row in done.rows}
            for ids, why in done.answers:
                for number in ids:
                    if why is None:
                        self.sent += 1
                        self._sent(number, now)
                    else:
                        self._failed(number, now + min(FIRST * 2 ** min(tries[number], 10), LONGEST), why)
            if failed := next((why for _, why in done.answers if why), None):
                number = list(self.targets).index(done.target) + 1 if done.target in self.targets else 0
                english, chinese = f"notify.urls, number {number}: {failed}", f"notify.urls 第 {number} 项：{failed}"
                self.said.append((f"{english}; tried again later", f"{chinese}；稍后重试"))
                self.failures += 1
                self.problems[done.target] = (english, chinese)
            else:
                self.problems.pop(done.target, None)

    def _heartbeat(self, clock: float, well: bool) -> None:
        url = self.config.get("notify", "heartbeat")
        try:
            why = self._beats.get_nowait()
        except Empty:
            pass
        else:
            self._beating = False
            self.problems.pop("", None)
            if why:
                self.failures += 1
                told = self.problems[""] = (f"notify.heartbeat: {why}", f"notify.heartbeat：{why}")
                if why != self._beat_problem:
                    self.said.append(told)
            self._beat_problem = why
        if not url or not well or self._beating or clock - self._beat < self.config.get("notify", "every"):
            return
        self._beat, self._beating = clock, True
        limit = self.config.get("notify", "limit")
        threading.Thread(target=lambda: self._beats.put(_fetched(url, limit)), name="ongpu heartbeat", daemon=True).start()


def _fetched(url: str, limit: float) -> str | None:
    try:
        return fetch(url, limit)
    except Exception as error:
        return type(error).__name__


def _quiet(row: Body) -> bool:
    return bool(row.get("silenced") or row.get("problem") == "silenced")


def _group(row: Body) -> tuple[str, str]:
    return row["what"], row["incident"]["slug"]


def _worst_first(rows: Sequence[Body]) -> list[Body]:
    """The incidents of these notices, each once, the most urgent first."""
    known = {row["incident"]["id"]: row["incident"] for row in rows}
    return sorted(known.values(), key=lambda one: (-URGENCY.index(one["label"]), one["gpu"] is None, one["gpu"] or 0))


def _joined(texts: Sequence[dict[str, str]]) -> dict[str, str]:
    """Many messages as one: their titles, then all of them."""
    worst = min((text["kind"] for text in texts), key=("failure", "warning", "info", "success").index)
    body = "\n\n".join(f"{text['title']}\n{text['body']}" for text in texts)
    return {"title": f"{texts[0]['title']} (+{len(texts) - 1})", "body": body, "kind": worst}


def test(config: Config, host: str) -> list[tuple[str, str | None]]:
    """Sends a test message to every service: (its address, masked; None where it was taken, else why not)."""
    from ongpu.watch.config import masked

    lang, limit = config.get("notify", "language"), config.get("notify", "limit")
    return [(masked(url), post(url, [messages.test(host, lang)], limit)[0]) for url in config.get("notify", "urls")]


def host_name(config: Config) -> str:
    """This machine's name."""
    return str(config.get("sample", "name") or (os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "?")))
