"""The state of each GPU for the queue: ok, suspect, drained or testing, and what changes it. Pure: events and the time in, states out.

A GPU of which nothing is known for a moment, or on which programs of two kinds died unexplained, is suspect: it gets no job, and is ok
again by itself after some healthy looks. What condemns a GPU drains it, and then only a passed test or an operator's word returns it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ongpu.lazy import dataclass, replace

if TYPE_CHECKING:
    from ongpu.queue.job import Card

OK, SUSPECT, DRAINED, TESTING = "ok", "suspect", "drained", "testing"
DRAIN, RETURN, TEST = "drain", "return", "test"  # an operator's words
PASSED, FAILED, UNPROVEN = "passed", "failed", "unproven"  # what a test came to
WELL, FAULT, UNEXPLAINED, EXPLAINED = "well", "fault", "unexplained", "explained"  # how a run ended, as far as it concerns its GPU
NOT_JUDGED, LOST, SILENT, BY_HAND, DIED, BLAMED, UNTESTED = (
    "not-judged", "gpu-lost", "gpu-silent", "drained-by-hand", "failures-unexplained", "gpu-fault", "test-failed",
)  # fmt: skip
AWAY = ("lost", "gone", "hung", "error")  # of a look's `how`: it answered, and does not any more
WORDS: Mapping[str, tuple[str, str]] = {  # slugs of ours: those of rules have their own words
    NOT_JUDGED: ("not judged yet", "尚未检查"),
    LOST: ("it does not answer", "GPU 无应答"),
    SILENT: ("nothing is known of it at present", "目前无法得知其状态"),
    BY_HAND: ("taken out of service by hand", "已由人工停用"),
    DIED: ("two different programs in a row died on it, and nothing says why", "接连有两个不同的程序在它上面异常退出，原因不明"),
    BLAMED: ("a job died of it", "有作业因它的故障而失败"),
    UNTESTED: ("a test of it failed", "检测未通过"),
}  # fmt: skip


def words(slug: str) -> tuple[str, str] | None:
    """A line in English and Chinese on a slug of ours ("xid-79" too); None for a rule's."""
    if slug.startswith("xid-"):
        return f"the driver reported Xid {slug[4:]}", f"驱动报告了 Xid {slug[4:]}"
    return WORDS.get(slug)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """healthy: looks in a row, at least `apart` seconds from each other, after which a suspect GPU is ok. away: seconds without an
    answer after which a GPU is drained; sure: seconds for which the gate must call it faulty, as a verdict may be older than a look."""

    healthy: int = 30
    apart: float = 0.9
    away: float = 30.0
    sure: float = 5.0


PATIENCE = Patience()


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One GPU. slug: why it is not ok; "" while ok. since: when it came into this state. All times: seconds since the epoch.

    healthy: healthy looks in a row, the last at `looked`. bad: since when it does not answer, or is called faulty. died: what programs
    died on it last, in a row and unexplained. forgiven: when an operator or a test returned it; Xids from before count no more. was: its
    state before the test.
    """

    state: str = OK
    slug: str = ""
    since: float = 0.0
    healthy: int = 0
    looked: float = 0.0
    bad: float | None = None
    died: tuple[str, ...] = ()
    forgiven: float = 0.0
    was: str = OK

    @property
    def open(self) -> bool:
        """Whether a job may be started on it, as far as its state goes; a look that says `unfit` forbids it all the same."""
        return self.state == OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What the looker says of it (look.py): how it answers, why it is unfit, an incident of the watch; xids: (time, code)."""

    how: str = "ok"
    unfit: str | None = None
    incident: str | None = None
    xids: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """A run on it ended. outcome: WELL, FAULT (of this GPU, `slug`), UNEXPLAINED (a program that died, and no rule says why), EXPLAINED.

    kind: what makes two runs runs of one program, such as user and command: its own fault shows up in all of them.
    """

    outcome: str
    kind: str = ""
    slug: str = ""


@dataclass(frozen=True, slots=True)
class Ordered:
    """An operator's word: DRAIN, RETURN (untested) or TEST."""

    word: str


@dataclass(frozen=True, slots=True)
class Tested:
    """A test's result: PASSED, FAILED (`slug`), or UNPROVEN: nothing here could compute on it."""

    result: str
    slug: str = ""


Event = Looked | Ended | Ordered | Tested


def of_card(card: "Card") -> Health:
    """The state that was kept. A test that was under way when the daemon ended is to be made again; until it passed, it is drained."""
    state = card.state if card.state in (OK, SUSPECT, DRAINED, TESTING) else DRAINED
    return Health(state=state, slug=card.slug, since=card.since or 0.0, was=DRAINED if card.slug else OK)


def look(told: Mapping[str, object]) -> Looked:
    """What a line of the looker says of a GPU; what is not as look.py has it reads as "not known"."""
    how, unfit, incident, xids = (told.get(name) for name in ("how", "unfit", "incident", "xids"))
    pairs = [tuple(pair) for pair in xids if isinstance(pair, list) and len(pair) == 2] if isinstance(xids, list) else []
    known = tuple((float(at), code) for at, code in pairs if isinstance(at, (int, float)) and isinstance(code, int))
    return Looked(
        how=how if isinstance(how, str) else "unknown", unfit=unfit if isinstance(unfit, str) else None,
        incident=incident if isinstance(incident, str) else None, xids=known,
    )  # fmt: skip


def step(health: Health, event: Event, now: float, patience: Patience = PATIENCE) -> Health:
    """The state after that."""
    if isinstance(event, Looked):
        return _looked(health, event, now, patience)
    if isinstance(event, Ended):
        return _ended(health, event, now)
    if isinstance(event, Tested):
        return _tested(health, event, now)
    if event.word == DRAIN:
        return _drained(health, BY_HAND, now)
    if event.word == RETURN:
        return Health(since=now, forgiven=now)
    if event.word == TEST and health.state != TESTING:
        return replace(health, state=TESTING, since=now, was=health.state, forgiven=now)  # what is new now is the test's finding
    return health


def _looked(health: Health, event: Looked, now: float, patience: Patience) -> Health:
    if health.state == DRAINED:
        return health
    if slug := _condemned(health, event):
        return _drained(health, slug, now)
    if health.state == TESTING:  # the test judges the rest
        return health
    if event.how in AWAY or (event.how == "ok" and faulty(event.unfit)):
        bad = now if health.bad is None else min(health.bad, now)  # a clock that was set back begins anew
        if now - bad >= (patience.away if event.how in AWAY else patience.sure):
            return _drained(health, event.unfit or LOST, now)
        return replace(_suspect(health, event.unfit or LOST, now), bad=bad)
    if event.unfit == NOT_JUDGED:  # it answers, or the driver has only just been asked
        return replace(health, bad=None)
    if event.how != "ok" or event.unfit:
        return replace(_suspect(health, event.unfit or SILENT, now), bad=None)
    if health.state != SUSPECT:
        return replace(health, bad=None)
    if 0 <= now - health.looked < patience.apart:
        return health
    if health.healthy + 1 >= patience.healthy:
        return Health(since=now, forgiven=health.forgiven)
    return replace(health, healthy=health.healthy + 1, looked=now, bad=None)


def faulty(slug: str | None) -> bool:
    """Whether the gate's word means that the GPU itself or its driver is at fault, and not the set-up."""
    from ongpu.queue.run import FAULTS

    return slug in FAULTS


def _condemned(health: Health, event: Looked) -> str:
    """The slug of what takes it out of service at once; "": nothing does."""
    from ongpu.knowledge.xids import xid

    if event.incident:
        return event.incident
    codes = (code for at, code in event.xids if at > health.forgiven)
    return next((f"xid-{code}" for code in codes if (known := xid(code)) and known.condemns), "")


def _ended(health: Health, event: Ended, now: float) -> Health:
    if health.state == DRAINED:
        return health
    if event.outcome == FAULT:
        return _drained(health, event.slug or BLAMED, now)
    if event.outcome == WELL:
        return replace(health, died=()) if health.died else health
    if event.outcome != UNEXPLAINED or health.state == TESTING:
        return health
    died = health.died if event.kind in health.died else (*health.died, event.kind)
    return _suspect(replace(health, died=()), DIED, now) if len(died) > 1 else replace(health, died=died)


def _tested(health: Health, event: Tested, now: float) -> Health:
    if health.state != TESTING:
        return health
    if event.result == PASSED:
        return Health(since=now, forgiven=now)
    if event.result == FAILED:
        return _drained(health, event.slug or UNTESTED, now)
    return replace(health, state=health.was, since=now, healthy=0)


def _drained(health: Health, slug: str, now: float) -> Health:
    if health.state == DRAINED and health.slug == slug:
        return health
    return Health(state=DRAINED, slug=slug, since=now, forgiven=health.forgiven, was=DRAINED)


def _suspect(health: Health, slug: str, now: float) -> Health:
    """Suspect, and not healthy now."""
    since = health.since if health.state == SUSPECT else now
    return replace(health, state=SUSPECT, slug=slug, since=since, healthy=0, looked=now)
