"""Who is told of a job's end, and how: messages to the addresses of the configuration and of the job itself, by Apprise.

Sent by hosts/post.py, as those of the watch are: a child process under a time limit in a thread of its own, so that a service that hangs
holds up nothing. Many ends at once are one message. What is not taken is tried again a few times; a daemon that is killed forgets it.
Why a job's message was not delivered is kept with the job (`Notices.changed`): `ongpu jobs ID` tells it.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ongpu.queue import job as words_of_job
from ongpu.queue.words import because, brief, ending, title

if TYPE_CHECKING:
    from ongpu.queue.config import Config
    from ongpu.queue.job import Told

STARTED, DONE, FAILED, WARNED, CANCELLED = "started", "done", "failed", "warned", "cancelled"
KINDS = {STARTED: "info", DONE: "success", FAILED: "failure", WARNED: "warning", CANCELLED: "info"}  # Apprise's
WORST = (FAILED, WARNED, CANCELLED, DONE, STARTED)
SAID: Mapping[str, tuple[str, str]] = {
    STARTED: ("started", "已开始"), DONE: ("done", "完成"), FAILED: ("failed", "失败"), WARNED: ("warning", "警告"),
    CANCELLED: ("cancelled", "已取消"),
}  # fmt: skip
TOGETHER = 5  # messages to one address at once; more are one
WAIT = 2.0  # seconds that a message waits for others
AGAIN = (5.0, 60.0, 600.0)  # seconds until what was not taken is tried again
LIMIT = 30.0  # seconds for one errand
MOST = 1000  # messages that wait for one address; beyond, the oldest go
_One = tuple[str, Mapping[str, str]]  # a job and its message
Post = Callable[[str, Sequence[Mapping[str, str]], float], list[str | None]]


def what(told: "Told") -> str | None:
    """What is to be told of a job in this state; None: nothing (it waits)."""
    if told.state in (words_of_job.DONE, words_of_job.CANCELLED):
        return DONE if told.state == words_of_job.DONE else CANCELLED
    return FAILED if told.state in (words_of_job.FAILED, words_of_job.LOST) else STARTED if told.state == words_of_job.RUNNING else None


def message(told: "Told", kind: str, lang: str, host: str, more: str = "") -> dict[str, str]:
    """{"title", "body", "kind", "said"} of one job: kind is Apprise's word, said ours. more: a line of the daemon's, as a warning of idle
    GPUs, or what would have fitted."""
    zh = lang == "zh"
    colon = "：" if zh else ": "
    lines = [*((ending(told, lang), because(told, lang)) if kind in (FAILED, CANCELLED) else ()), more]
    if told.started and told.ended and told.ended >= told.started:
        lines.append(f"运行 {brief(told.ended - told.started)}" if zh else f"ran {brief(told.ended - told.started)}")
    if told.busy is not None and told.gpus:
        lines.append(f"GPU 繁忙 {told.busy:.0%}" if zh else f"GPUs busy {told.busy:.0%}")
    if kind == FAILED:
        lines.append(f"ongpu logs {told.id}")
    name = f"{title(told.spec)[:80]} ({told.id})"
    body = "\n".join(dict.fromkeys(filter(None, lines))) or name
    return {"title": f"[{SAID[kind][zh]}] {host}{colon}{name}", "body": body, "kind": KINDS[kind], "said": kind}


def grouped(messages: Sequence[Mapping[str, str]], lang: str, host: str) -> list[Mapping[str, str]]:
    """Those that go out together: as they are, or as one, the failures first."""
    if len(messages) <= TOGETHER:
        return list(messages)
    zh = lang == "zh"
    ranked = sorted(messages, key=lambda one: WORST.index(one["said"]))
    counts = [(kind, sum(one["said"] == kind for one in messages)) for kind in WORST]
    told = ("，" if zh else ", ").join(f"{number} {SAID[kind][zh]}" for kind, number in counts if number)
    lines = [one["title"] for one in ranked[:20]]
    lines += [f"… +{len(ranked) - 20}"] if len(ranked) > 20 else []
    return [{"title": f"{host}{'：' if zh else ': '}{told}", "body": "\n".join(lines), "kind": ranked[0]["kind"]}]


class Notices:
    """Tells people. All methods are for the daemon's own thread; `step` to be called once a second. now: of a clock that does not jump."""

    def __init__(self, config: "Config", post: Post | None = None, host: str = "") -> None:
        self.config, self.host = config, host or os.uname().nodename
        self.post = post
        self.waiting: dict[str, deque[_One]] = {}  # address -> jobs and their messages
        self.due: dict[str, float] = {}  # address -> when it is to be tried
        self.tries: dict[str, int] = {}
        self.under: dict[str, tuple[threading.Thread, list[_One], list[str | None]]] = {}
        self.bad: dict[str, dict[str, str]] = {}  # job -> address -> why it did not take the job's last message; of the last jobs
        self.news: set[str] = set()  # jobs of which `bad` says something else now
        self.problem: str | None = None  # why the last sending was not taken; the address is not in it

    @property
    def busy(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self.under) or any(self.waiting.values())

    def tell(self, told: "Told", kind: str, now: float, more: str = "") -> None:
        """A job started, ended or is warned. The job's own address hears of its ends and warnings, whatever the configuration says."""
        wanted = kind == WARNED or kind in self.config.on or "all" in self.config.on
        urls = dict.fromkeys(self.config.notify if wanted else ())
        if told.spec.notify and kind != STARTED:
            urls[told.spec.notify] = None
        for url in urls:
            self.waiting.setdefault(url, deque(maxlen=MOST)).append((told.id, message(told, kind, self.config.language, self.host, more)))
            self.due.setdefault(url, now + WAIT)

    def step(self, now: float) -> None:
        """Sends what is due, and takes in what was sent."""
        for url in [url for url, (thread, _, _) in self.under.items() if not thread.is_alive()]:
            _, taken, told = self.under.pop(url)
            self._answered(url, taken, told, now)
        for url, due in list(self.due.items()):
            if now >= due and url not in self.under and self.waiting.get(url):
                del self.due[url]
                sent = list(self.waiting.pop(url))
                answers: list[str | None] = []
                thread = threading.Thread(target=self._send, args=(url, [one for _, one in sent], answers), daemon=True)
                self.under[url] = thread, sent, answers
                thread.start()

    def _send(self, url: str, messages: Sequence[Mapping[str, str]], answers: list[str | None]) -> None:
        from ongpu.hosts.post import post

        answers += (self.post or post)(url, grouped(messages, self.config.language, self.host), LIMIT)

    def _answered(self, url: str, sent: Sequence["_One"], answers: Sequence[str | None], now: float) -> None:
        bad = next((why for why in answers if why), None if answers else "the sender failed")
        tries = self.tries.pop(url, 0)
        self.problem = bad
        each = list(answers) if len(answers) == len(sent) else [bad] * len(sent)
        for (job, _), why in zip(sent, each, strict=True):
            self._note(job, url, why)
        if bad is not None:
            left = [one for one, why in zip(sent, each, strict=True) if why]
            if tries < len(AGAIN):
                self.tries[url] = tries + 1
                self.waiting[url] = deque([*left, *self.waiting.get(url, ())], maxlen=MOST)
                self.due[url] = now + AGAIN[tries]
                return
        if self.waiting.get(url):
            self.due.setdefault(url, now + WAIT)

    def _note(self, job: str, url: str, why: str | None) -> None:
        known = self.bad.get(job, {})
        if known.get(url) == why:
            return
        known = {**{other: text for other, text in known.items() if other != url}, **({url: why} if why else {})}
        self.bad.pop(job, None)
        if known:
            self.bad[job] = known
            if len(self.bad) > MOST:
                self.bad.pop(next(iter(self.bad)))
        self.news.add(job)

    def changed(self) -> dict[str, str]:
        """Jobs of which it is known since the last call that a message did not arrive, and why; "": now it has."""
        found = {job: "; ".join(dict.fromkeys(self.bad.get(job, {}).values())) for job in self.news}
        self.news = set()
        return found

    def close(self, patience: float = 3.0) -> None:
        """Sends what is due at the end; waits a moment for it."""
        end = time.monotonic() + patience
        self.due = dict.fromkeys(self.due, float("-inf"))
        while self.busy and time.monotonic() < end:
            self.step(time.monotonic())
            time.sleep(0.05)
