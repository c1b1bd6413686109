"""Notifications through Apprise to a real web server: grouped, tried again, silenced, never lost, and without secrets."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parts.webhook import Hook, hook

from ongpu.hosts.post import UNKNOWN, cleaned, fetch, post
from ongpu.store import Store
from ongpu.watch import messages
from ongpu.watch.config import parse
from ongpu.watch.incidents import Change, Incident
from ongpu.watch.notify import FIRST, LOOK, Notifier
from ongpu.watch.notify import test as send_test

T = 1_764_500_000.0
WORDS = {
    "en": {"title": "The GPU has fallen off the bus", "why": "Power broke down.", "fix": "Check the cables."},
    "zh": {"title": "GPU 掉卡", "why": "供电跌落。", "fix": "检查供电线。"},
}


def incident(gpu: int | None = 3, slug: str = "gpu-fell-off-bus", number: int = 0, **changes: Any) -> Incident:
    uuid = None if gpu is None else f"GPU-{gpu}"
    subject = "" if gpu is None else f"GPU {gpu}"
    bare = Incident(
        number or 100 + (gpu or 0), slug, subject, gpu, uuid, "error", "certain", "critical", "condition", T, words=WORDS,
        commands=({"run": "sudo dmesg", "risk": "safe"},), refs=({"source": "dmesg", "line": 1, "quote": "NVRM: Xid 79"},),
    )  # fmt: skip
    return replace(bare, **changes)


def opened(*incidents: Incident) -> list[Change]:
    return [Change("opened", one) for one in incidents]


def closed(*incidents: Incident) -> list[Change]:
    return [Change("closed", replace(one, closed=T + 720)) for one in incidents]


@pytest.fixture
def server() -> Iterator[Hook]:
    with hook() as found:
        yield found


class Desk:
    """A notifier over a store, with a wall clock that is told; real time passes only for what is on its way."""

    def __init__(self, path: Path, *urls: str, more: dict[str, Any] | None = None, **notify: Any) -> None:
        self.now, self.open = T, list(range(1000))
        self.config = parse({"notify": {"urls": list(urls), "group_wait": 1, "limit": 8, **notify}, **(more or {})}, None)
        self.store = Store(path / "watch.db")
        self.notifier = Notifier(self.config, self.store, "node7")

    def tell(self, *changes: Change) -> None:
        self.notifier.tell(changes, self.now)

    def step(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.notifier.step(self.now, time.monotonic(), self.open, True)

    def until(self, what: Callable[[], bool], seconds: float = 20.0) -> None:
        """Real time passes, and the clock that is told stands still, until it is so."""
        end = time.monotonic() + seconds
        while not what():
            self.step()
            assert time.monotonic() < end, self.notifier.said
            time.sleep(0.02)

    def idle(self) -> None:
        self.until(lambda: not self.notifier.busy)


@pytest.fixture
def desk(tmp_path: Path, server: Hook) -> Iterator[Desk]:
    found = Desk(tmp_path, f"json://127.0.0.1:{server.port}/hook")
    yield found
    found.store.close()


def test_eight_gpus_of_one_fault_are_one_message_with_its_diagnosis(desk: Desk, server: Hook) -> None:
    desk.tell(*opened(*map(incident, range(4))))
    desk.now += 0.5
    desk.tell(*opened(*map(incident, range(4, 8))))
    desk.step(0.6)  # a second after the first
    desk.until(lambda: len(server.messages) == 1)
    (told,) = server.messages
    assert told["title"].startswith("[critical] node7: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: GPU lost")
    assert told["type"] == "failure"
    for part in ("fallen off the bus", "Power broke down.", "Fix: Check the cables.", "$ sudo dmesg   [safe]", "Xid 79"):
        assert part in told["message"]
    desk.idle()
    assert desk.store.notices() == []
    desk.step(3600)
    desk.idle()
    assert len(server.messages) == 1


def test_in_chinese(tmp_path: Path, server: Hook) -> None:
    desk = Desk(tmp_path, f"json://127.0.0.1:{server.port}/", language="zh")
    desk.tell(*opened(incident()))
    desk.step(2)
    desk.until(lambda: bool(server.messages))
    assert server.messages[0]["title"] == "[严重] node7：GPU 3：GPU 掉卡：从总线上消失"
    assert "修复：检查供电线。" in server.messages[0]["message"]
    desk.idle()
    desk.store.close()


def test_what_is_over_is_told_and_nothing_milder_than_asked_for(desk: Desk, server: Hook) -> None:
    desk.tell(*opened(incident(label="info")))
    desk.step(2)
    desk.idle()
    assert server.messages == []
    desk.tell(*opened(incident(5)))
    desk.tell(*closed(incident(5)))
    desk.step(2)
    desk.until(lambda: len(server.messages) == 2)
    assert {told["type"] for told in server.messages} == {"failure", "success"}
    told = next(told for told in server.messages if told["type"] == "success")
    assert told["title"] == "[resolved] node7: GPU 5: GPU lost: fell off the bus"
    assert "lasted 12 min" in told["message"]
    desk.idle()


def test_what_is_not_taken_is_tried_again_and_outlives_the_agent(desk: Desk, server: Hook, tmp_path: Path) -> None:
    server.status = 503
    desk.tell(*opened(incident()))
    desk.step(2)
    desk.until(lambda: bool(desk.store.notices() and desk.store.notices()[0]["tries"] == 1))
    desk.step(1)
    desk.idle()
    assert len(server.came) == 1  # not yet due again
    assert "notify.urls, number 1" in desk.notifier.said[0][0]
    assert (desk.notifier.failures, len(desk.notifier.problems)) == (1, 1)
    desk.store.close()

    server.status = 200
    again = Desk(tmp_path, f"json://127.0.0.1:{server.port}/hook")
    again.now = desk.now + FIRST
    again.notifier.problems = dict.fromkeys(again.notifier.targets, ("old", "旧"))
    again.until(lambda: len(server.came) == 2)
    again.idle()
    assert (again.notifier.failures, again.notifier.problems) == (0, {})
    assert again.store.notices() == []
    again.store.close()


@pytest.mark.slow
def test_a_service_that_hangs_holds_up_nothing_else(tmp_path: Path, server: Hook) -> None:
    with hook() as stuck:
        stuck.wait = 60.0
        desk = Desk(tmp_path, f"json://127.0.0.1:{stuck.port}/", f"json://127.0.0.1:{server.port}/", limit=3)
        desk.tell(*opened(incident()))
        start = time.monotonic()
        desk.step(2)
        desk.until(lambda: len(server.messages) == 1)
        assert time.monotonic() - start < 3
        desk.tell(*opened(incident(4)))
        desk.step(2)
        desk.until(lambda: len(server.messages) == 2)
        desk.until(lambda: bool(desk.notifier.said))
        assert "no answer within 3 s" in desk.notifier.said[0][0]
        desk.idle()
        assert {row["target"] for row in desk.store.notices()} == {next(iter(desk.notifier.targets))}
        desk.store.close()


@pytest.mark.parametrize(
    ("silence", "quiet"),
    [
        ({"slug": "gpu-fell-off-bus"}, True), ({"gpu": "3"}, True), ({"gpu": "GPU-3"}, True),
        ({"slug": "gpu-fell-off-bus", "gpu": "3"}, True),
        ({"slug": "thermal-throttle"}, False), ({"gpu": "4"}, False), ({"slug": "thermal-throttle", "gpu": "3"}, False),
    ],
)  # fmt: skip
def test_silences_of_the_configuration(tmp_path: Path, silence: dict[str, str], quiet: bool) -> None:
    desk = Desk(tmp_path, "nosuch://x", more={"silence": [silence]})
    desk.tell(*opened(incident()), *closed(incident()))
    desk.open = []
    desk.step(2)
    assert desk.notifier.busy != quiet
    desk.idle()
    desk.step(LOOK)
    desk.idle()
    assert desk.store.notices() == [] or not quiet
    desk.store.close()


@pytest.mark.slow
def test_what_is_still_wrong_when_a_silence_ends_is_told_then(desk: Desk, server: Hook) -> None:
    number = desk.store.add_silence(T + 7200, {"slug": None, "gpu_uuid": "GPU-3", "by": "cli", "note": ""})
    desk.tell(*opened(incident(3), incident(4)))
    desk.step(2)
    desk.until(lambda: len(server.messages) == 1)
    assert "GPU 4" in server.messages[0]["title"]
    desk.idle()
    for _ in range(30):
        desk.step(60)
        desk.idle()
    assert len(server.messages) == 1
    desk.store.end_silence(number, desk.now)
    desk.step(61)
    desk.until(lambda: len(server.messages) == 2)
    assert "GPU 3" in server.messages[1]["title"]
    desk.idle()


def test_what_came_and_went_in_silence_is_never_told(desk: Desk, server: Hook) -> None:
    desk.store.add_silence(T + 600, {"slug": "gpu-fell-off-bus", "gpu_uuid": None, "by": "cli", "note": ""})
    desk.tell(*opened(incident(3)))
    desk.step(500)
    desk.idle()
    desk.tell(*closed(incident(3)))
    desk.open = []
    desk.step(700)
    desk.idle()
    assert server.messages == []
    assert desk.store.notices() == []


@pytest.mark.slow
def test_a_critical_incident_is_told_again_and_a_warning_is_not(desk: Desk, server: Hook) -> None:
    both = [incident(3), incident(4, "thermal-throttle", label="warning")]
    desk.tell(*opened(*both))
    desk.step(2)
    desk.until(lambda: len(server.messages) == 2)
    desk.idle()
    for _ in range(5):
        desk.now += 3600
        desk.notifier.repeat(both, desk.now)
        desk.step(2)
        desk.idle()
    assert [told["title"][:16] for told in server.messages[2:]] == ["[still, critical"]


def test_a_fault_that_gets_worse_is_told_once_more_and_one_that_is_merely_better_known_is_not(desk: Desk) -> None:
    mild, bad = incident(3, label="warning"), incident(3, label="critical")
    desk.tell(*opened(mild, incident(4)))
    desk.tell(Change("changed", incident(4, variant="link")))
    assert [row["what"] for row in desk.store.notices()] == ["opened", "opened"]
    desk.tell(Change("changed", bad), Change("changed", bad))
    assert [(row["what"], row["incident"]["gpu"]) for row in desk.store.notices()][2:] == [("worse", 3)]


def test_what_was_too_mild_to_be_told_is_told_when_it_gets_worse(desk: Desk) -> None:
    desk.tell(*opened(incident(3, label="info")), Change("changed", incident(3, label="critical")))
    assert [row["what"] for row in desk.store.notices()] == ["worse"]


def test_a_clock_that_is_set_back_delays_nothing(desk: Desk, server: Hook) -> None:
    desk.tell(*opened(incident(3)))
    desk.now -= 400 * 86400
    desk.until(lambda: len(server.messages) == 1)
    desk.idle()


def test_a_storm_of_faults_is_one_message(desk: Desk, server: Hook) -> None:
    slugs = ("gpu-fell-off-bus", "ecc-uncorrectable", "row-remap-failure", "gsp-timeout", "driver-hung", "nvlink-error", "fan-failure")
    desk.tell(*opened(*(incident(n, slug) for n, slug in enumerate(slugs))))
    desk.step(2)
    desk.until(lambda: len(server.messages) == 1)
    assert server.messages[0]["title"].endswith("(+6)")
    assert all(f"GPU {n}" in server.messages[0]["message"] for n in range(7))
    desk.idle()


def test_old_messages_and_those_to_services_that_are_gone_are_let_go(desk: Desk, server: Hook) -> None:
    desk.tell(*opened(incident(3)))
    desk.step(2 * 86400)
    desk.idle()
    desk.tell(*opened(incident(4)))
    desk.notifier.configure(parse({"notify": {"urls": []}}, None))
    desk.step(2)
    desk.idle()
    assert server.messages == []
    assert desk.store.notices() == []


FULL = """
import resource, sys, time
from pathlib import Path
from ongpu.store import Store
from ongpu.watch.config import parse
from ongpu.watch.incidents import Change, Incident
from ongpu.watch.notify import Notifier

with Store(Path(sys.argv[1])) as store:
    notifier = Notifier(parse({"notify": {"urls": [sys.argv[2]], "group_wait": 0}}, None), store, "node7")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limit[1]))
    now = time.time()
    lost = Incident(1, "gpu-fell-off-bus", "", 3, "GPU-3", "error", "certain", "critical", "condition", now)
    notifier.tell([Change("opened", lost)], now)
    assert store.problem, "the disk took it"
    while not notifier.sent:
        notifier.step(time.time(), time.monotonic(), [1], True)
        time.sleep(0.05)
        assert time.time() < now + 20, notifier.said
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    store.add_event(now, {})  # writes what waits
    assert store.notices() == [], store.notices()
"""


@pytest.mark.slow
def test_a_full_disk_delays_no_message_and_repeats_none(tmp_path: Path, server: Hook) -> None:
    words = [sys.executable, "-c", FULL, str(tmp_path / "w.db"), f"json://127.0.0.1:{server.port}/"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert len(server.messages) == 1


@pytest.mark.slow
def test_no_secret_is_in_the_store_or_in_a_complaint(tmp_path: Path) -> None:
    token = "s3cr3tT0ken0000"
    urls = (f"json://user:{token}@127.0.0.1:9/{token}", f"slack://{token}/{token}/{token}x", f"nosuch://{token}", f"mailto://{token}")
    desk = Desk(tmp_path, *urls)
    desk.tell(*opened(incident()))
    desk.step(2)
    desk.until(lambda: len(desk.notifier.said) == len(urls), 40)
    desk.idle()
    assert token not in json.dumps(desk.notifier.said)
    desk.store.close()
    assert token.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@given(st.text(max_size=60), st.lists(st.from_regex(r"[A-Za-z0-9_-]{4,30}", fullmatch=True), min_size=1, max_size=5))
def test_reasons_hold_no_part_of_the_address(text: str, parts: list[str]) -> None:
    secret = "slack://" + "/".join(parts)
    told = cleaned(f"{text} {secret} {' '.join(parts)} {text}", secret)
    assert not any(part in told for part in parts if part not in text + "slack***" and part.replace("*", "") != "")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Apprise's own imports
@pytest.mark.parametrize(
    "url",
    [
        "feishu://abcdef012345", "lark://abcdef012345", "slack://TOKENAAAA/TOKENBBBB/tokencccccccccccccccccccc/#gpu",
        "dingtalk://abc123def/13800000000",
        "wecombot://abcd1234-0000-4000-8000-aaaabbbbcccc", "mailto://ops:pw@example.com", "mailtos://ops:pw@smtp.example.com?to=oncall@example.com",
        "json://127.0.0.1:8080/hook", "jsons://example.com/hook", "tgram://123456789:abcdefg_hijklmnop/12315544/",
        "pagerduty://ABCDEFGHIJ@abcdefghij", "ntfy://topic", "discord://webhookid012345678/webhooktoken",
    ],
)  # fmt: skip
def test_addresses_of_common_services_are_known_to_apprise(url: str) -> None:
    import apprise

    assert apprise.Apprise.instantiate(url, suppress_exceptions=True) is not None


def test_the_test_message(server: Hook) -> None:
    config = parse({"notify": {"urls": [f"json://127.0.0.1:{server.port}/", "nosuch://x"]}}, None)
    assert send_test(config, "node7") == [("json://***", None), ("nosuch://***", UNKNOWN)]
    assert "node7" in server.messages[0]["message"]


def test_a_heartbeat_is_fetched_as_often_as_asked_and_only_while_all_is_well(tmp_path: Path, server: Hook) -> None:
    desk = Desk(tmp_path, heartbeat=f"http://127.0.0.1:{server.port}/beat", every=5)
    for second in range(0, 31):
        desk.notifier.step(T, float(second), [], well=second < 16)
        if second % 5 == 0 and second < 16:
            server.until(lambda second=second: len(server.came) == second // 5 + 1)  # type: ignore[misc]
            end = time.monotonic() + 10
            while desk.notifier._beats.empty():
                assert time.monotonic() < end
                time.sleep(0.02)
    assert [path for _, path, _ in server.came] == ["/beat"] * 4
    desk.store.close()


@pytest.mark.slow
def test_errands_say_why_they_failed(server: Hook) -> None:
    server.status = 500
    assert "500" in (fetch(f"http://127.0.0.1:{server.port}/", 10) or "")
    assert fetch("file:///etc/passwd", 10) == "is to begin with https:// or http://"
    server.wait, server.status = 60.0, 200
    assert fetch(f"http://127.0.0.1:{server.port}/", 1) == "no answer within 1 s"
    assert post(f"json://127.0.0.1:{server.port}/", [{"title": "a", "body": "b", "kind": "info"}] * 2, 2) == ["no answer within 2 s"] * 2


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("what", ["opened", "worse", "repeat", "closed"])
def test_messages_of_bare_incidents(lang: str, what: messages.What) -> None:
    bare = Incident(1, "unheard-of", "", None, None, "warning", "likely", "warning", "event", T, T + 4000.0).as_json()
    told = messages.message(what, [bare], "node7", lang)
    assert "node7" in told["title"]
    assert "{" not in told["title"] + told["body"]
    many = messages.message(what, [incident(n).as_json() for n in range(64)], "node7", lang)
    assert "+48" in many["title"]
