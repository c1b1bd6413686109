"""Incidents open after their hold, close after their clear time, keep what is unknown, and survive a restart."""

import json
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ongpu.model import Certainty, Severity
from ongpu.watch.alerts import ALERTS, Alert, alert
from ongpu.watch.incidents import FLAP_WINDOW, FLAPS, Answers, Change, Diagnosis, Incident, Incidents, Seen

KEYS = [("gpu-fell-off-bus", "GPU-0"), ("thermal-throttle", "GPU-0"), ("thermal-throttle", "GPU-1"), ("driver-hung", "")]
HOLDS = {"gpu-fell-off-bus": (0.0, 30.0), "thermal-throttle": (60.0, 120.0), "driver-hung": (10.0, 0.0)}
WALL = 1_764_500_000.0


def row(slug: str, severity: Severity) -> Alert:
    hold, clear = HOLDS[slug]
    return replace(alert(slug, severity), hold=hold, clear=clear)


def seen(
    key: tuple[str, str], severity: Severity = Severity.ERROR, certainty: Certainty = Certainty.CERTAIN, variant: str = "", refs: int = 1
) -> Seen:
    words = {"en": {"title": f"{key[0]} {variant}", "why": "w", "fix": "f"}, "zh": {"title": "题", "why": "因", "fix": "修"}}
    lines = tuple({"source": "dmesg", "line": n, "quote": "q"} for n in range(refs))
    gpu = int(key[1][-1]) if key[1] else None
    subject = f"GPU {gpu}" if key[1] else ""
    return Seen(key[0], key[1], subject, gpu, severity, certainty, variant, lambda: Diagnosis(words, refs=lines))


def found(*ones: Seen) -> Answers:
    return Answers({one.key: one for one in ones}, frozenset(KEYS) - {one.key for one in ones})


CLEAR = Answers({}, frozenset(KEYS))
UNKNOWN = Answers({}, frozenset())
LOST, HOT, HUNG = seen(KEYS[0]), seen(KEYS[1], Severity.WARNING), seen(KEYS[3])


def whats(changes: list[Change]) -> list[tuple[str, str]]:
    return [(change.what, change.incident.slug) for change in changes]


def test_a_fault_without_hold_opens_at_once_and_closes_when_it_was_gone_long_enough() -> None:
    all_of_them = Incidents(0, WALL, row=row)
    assert whats(all_of_them.step(1, WALL + 1, found(LOST))) == [("opened", "gpu-fell-off-bus")]
    assert all_of_them.step(2, WALL + 2, CLEAR) == []
    assert all_of_them.step(31.9, WALL + 31.9) == []
    (change,) = all_of_them.step(32, WALL + 32)
    assert (change.what, change.incident.opened, change.incident.closed) == ("closed", WALL + 1, WALL + 2)  # over since it was first clear
    assert all_of_them.open == []


def test_a_fault_with_hold_opens_by_time_alone_and_not_before() -> None:
    all_of_them = Incidents(0, WALL, row=row)
    assert all_of_them.step(0, WALL, found(HOT)) == []
    assert all_of_them.step(59.9, WALL + 59.9) == []
    assert whats(all_of_them.step(60, WALL + 60)) == [("opened", "thermal-throttle")]


def test_a_fault_that_does_not_hold_is_never_told() -> None:
    all_of_them = Incidents(0, WALL, row=row)
    for t in range(0, 600, 60):
        assert all_of_them.step(t, WALL + t, found(HOT)) == []
        assert all_of_them.step(t + 59, WALL + t + 59, CLEAR) == []


def test_unknown_neither_opens_nor_closes_and_does_not_start_anew() -> None:
    all_of_them = Incidents(0, WALL, row=row)
    all_of_them.step(0, WALL, found(HOT))
    assert all_of_them.step(30, WALL, UNKNOWN) == []
    assert all_of_them.step(5000, WALL) == []
    assert all_of_them.step(5000, WALL, found(HOT)) == []
    assert whats(all_of_them.step(5030, WALL)) == [("opened", "thermal-throttle")]  # 30 s before, 30 s after
    all_of_them.step(5031, WALL, UNKNOWN)
    assert all_of_them.step(99_999, WALL) == []
    assert len(all_of_them.open) == 1


def test_two_gpus_with_one_fault_are_two_incidents() -> None:
    all_of_them = Incidents(0, WALL, row=row)
    two = [seen(KEYS[1]), seen(KEYS[2])]
    all_of_them.step(0, WALL, found(*two))
    changes = all_of_them.step(60, WALL + 60)
    assert sorted(change.incident.gpu_uuid or "" for change in changes) == ["GPU-0", "GPU-1"]


def test_what_comes_and_goes_becomes_one_incident_that_flaps() -> None:
    all_of_them = Incidents(0, WALL, row=row)
    told: list[Change] = []
    for t in range(0, 560, 70):  # eight times: lost for 20 s, back for 50
        told += all_of_them.step(t, WALL + t, found(LOST))
        told += all_of_them.step(t + 20, WALL + t + 20, CLEAR)
        told += all_of_them.step(t + 60, WALL + t + 60)
    assert [change.what for change in told] == ["opened", "closed", "opened", "closed", "opened"]
    assert told[-1].incident.flapping == FLAPS
    last = 560 - 70 + 20
    assert all_of_them.step(last + FLAP_WINDOW - 1, WALL) == []
    assert [change.what for change in all_of_them.step(last + FLAP_WINDOW, WALL)] == ["closed"]


def test_flapping_is_known_after_a_restart() -> None:
    before = [
        Incident(n, "gpu-fell-off-bus", "GPU 0", 0, "GPU-0", "error", "certain", "critical", "condition", at, at + 5)
        for n, at in ((1, WALL - 100), (2, WALL - 200))
    ]
    all_of_them = Incidents(7000, WALL, recent=before, row=row)
    (change,) = all_of_them.step(7001, WALL + 1, found(LOST))
    assert change.incident.flapping == FLAPS


def test_what_is_open_is_taken_over_and_not_told_twice() -> None:
    first = Incidents(0, WALL, row=row)
    (change,) = first.step(0, WALL, found(LOST))
    first.number(change.incident.key, 17)
    kept = [Incident.from_json(json.loads(json.dumps(one.as_json()))) for one in first.open]
    assert kept[0].id == 17
    second = Incidents(0, WALL + 1000, open=kept, row=row)
    assert second.step(0, WALL + 1000, UNKNOWN) == []
    assert second.step(100, WALL + 1100, found(LOST)) == []
    assert second.open[0].words == change.incident.words
    second.step(101, WALL + 1101, CLEAR)
    (closed,) = second.step(131, WALL + 1131)
    assert (closed.what, closed.incident.id, closed.incident.opened) == ("closed", 17, WALL)


def test_json_of_another_version_is_read() -> None:
    incident = Incident(1, "x", "", None, None, "error", "certain", "critical", "condition", WALL)
    assert Incident.from_json({**incident.as_json(), "new": 1, "ack": None}) == incident


def test_a_diagnosis_that_says_more_replaces_the_old_one_and_one_that_says_less_does_not() -> None:
    all_of_them = Incidents(0, WALL, row=row)
    all_of_them.step(0, WALL, found(seen(KEYS[0], certainty=Certainty.LIKELY, variant="signs", refs=2)))
    (change,) = all_of_them.step(1, WALL + 1, found(seen(KEYS[0], variant="link", refs=3)))
    assert (change.what, change.incident.certainty, change.incident.variant, len(change.incident.refs)) == ("changed", "certain", "link", 3)
    assert all_of_them.step(2, WALL + 2, found(seen(KEYS[0], variant="", refs=1))) == []
    assert all_of_them.step(3, WALL + 3, found(seen(KEYS[0], certainty=Certainty.LIKELY, variant="signs", refs=5))) == []
    assert all_of_them.open[0].variant == "link"


def test_a_milder_finding_is_less_urgent_than_its_row() -> None:
    all_of_them = Incidents(0, WALL)
    key = ("row-remap-failure", "GPU-0")
    (change,) = all_of_them.step(0, WALL, Answers({key: seen(key, Severity.WARNING)}, frozenset()))
    assert (change.incident.label, ALERTS["row-remap-failure"].label) == ("warning", "critical")


def test_the_end_is_never_before_the_beginning_though_the_clock_is_set_back() -> None:
    all_of_them = Incidents(0, WALL, row=row)
    all_of_them.step(0, WALL, found(LOST))
    all_of_them.step(10, WALL - 86400, CLEAR)
    (change,) = all_of_them.step(40, WALL - 86370)
    assert change.incident.closed == change.incident.opened


class Schedules(RuleBasedStateMachine):
    """Any order of answers, silences, pauses and restarts, against a plain account of what was said when."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.wall = 100.0, WALL
        self.incidents = Incidents(self.clock, self.wall, row=row)
        self.said: dict[tuple[str, str], list[tuple[float, str]]] = {key: [] for key in KEYS}
        self.store: dict[int, Incident] = {}
        self.next = 1

    def _apply(self, answers: Answers | None) -> None:
        for change in self.incidents.step(self.clock, self.wall, answers):
            incident = change.incident
            if change.what == "opened":
                assert incident.key not in {one.key for one in self.store.values() if one.closed is None}, "opened twice"
                assert self._for(incident.key, "found") >= HOLDS[incident.slug][0]
                incident = replace(incident, id=self.next)
                self.incidents.number(incident.key, self.next)
                self.next += 1
            elif change.what == "closed":
                assert self.said[incident.key][-1][1] == "clear", "closed while it holds, or cannot be judged"
                assert self._for(incident.key, "clear") >= HOLDS[incident.slug][1]
                assert incident.closed is not None
                assert incident.closed >= incident.opened
            self.store[incident.id] = incident

    def _for(self, key: tuple[str, str], word: str) -> float:
        """Seconds for which that was said since the contrary was said last."""
        contrary = {"found": "clear", "clear": "found"}[word]
        total = 0.0
        ends = [t for t, _ in self.said[key][1:]] + [self.clock]
        for (start, told), end in zip(self.said[key], ends, strict=True):
            total = 0.0 if told == contrary else total + (end - start if told == word else 0.0)
        return total

    @rule(words=st.lists(st.sampled_from(["found", "clear", "unknown"]), min_size=4, max_size=4), certain=st.sampled_from(list(Certainty)))
    def judge(self, words: list[str], certain: Certainty) -> None:
        told = dict(zip(KEYS, words, strict=True))
        for key, word in told.items():
            self.said[key].append((self.clock, word))
        self._apply(Answers(
            {key: seen(key, certainty=certain) for key, word in told.items() if word == "found"},
            frozenset(key for key, word in told.items() if word == "clear"),
        ))  # fmt: skip

    @rule(seconds=st.one_of(st.floats(0, 3), st.floats(0, 700)))
    def wait(self, seconds: float) -> None:
        self.clock += seconds
        self.wall += seconds
        self._apply(None)

    @rule(jump=st.floats(-1e6, 1e6))
    def set_clock(self, jump: float) -> None:
        self.wall += jump

    @rule()
    def restart(self) -> None:
        """The agent ends; what is not in the store is forgotten."""
        kept = [Incident.from_json(json.loads(json.dumps(one.as_json()))) for one in self.store.values()]
        opened = [one for one in kept if one.closed is None]
        self.incidents = Incidents(self.clock, self.wall, opened, kept, row)
        for key in KEYS:
            self.said[key] = [(self.clock, "unknown")]

    @invariant()
    def none_is_lost(self) -> None:
        mine = {one.key: one for one in self.store.values() if one.closed is None}
        assert {one.key for one in self.incidents.open} == set(mine)
        for key in KEYS:
            if self.said[key] and self.said[key][-1][1] == "found" and self._for(key, "found") > HOLDS[key[0]][0] + 1e-6:
                assert key in mine, "a fault that holds is not told"


Schedules.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSchedules = Schedules.TestCase
