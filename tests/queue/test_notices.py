"""Who is told of a job's end: by the configuration and by the job; many at once as one; again where it was not taken."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from parts.webhook import hook

from ongpu.queue.config import Config
from ongpu.queue.job import Spec, Told
from ongpu.queue.notices import AGAIN, CANCELLED, DONE, FAILED, MOST, STARTED, WAIT, WARNED, Notices, grouped, message, what


def told(id: str = "12", state: str = "failed", notify: str = "", **more: Any) -> Told:
    return Told(id=id, spec=Spec(command=("python", "train.py"), name="train", notify=notify), state=state, **more)


class Post:
    """Stands for hosts/post.py. answer: what the service says of each message."""

    def __init__(self, answer: str | None = None) -> None:
        self.answer, self.sent = answer, list[tuple[str, list[Mapping[str, str]]]]()

    def __call__(self, url: str, messages: Sequence[Mapping[str, str]], limit: float) -> list[str | None]:
        self.sent.append((url, list(messages)))
        return [self.answer] * len(messages)


def run(notices: Notices, until: Callable[[], bool], now: float = 0.0) -> float:
    """Steps, each a tenth of a second of its clock; the time at the end."""
    end = time.monotonic() + 10
    while not until():
        assert time.monotonic() < end
        notices.step(now)
        now += 0.1
        time.sleep(0.001)
    return now


class TestMessages:
    def test_a_failure_says_why(self) -> None:
        job = told(ending="out-of-memory", said="GPU 0 is full", started=10.0, ended=70.0, gpus=("GPU-1",), busy=0.5)
        found = message(job, FAILED, "en", "box", "it needed at least 79.6 GiB")
        assert found["title"] == "[failed] box: train (12)"
        assert found["kind"] == "failure"
        assert found["body"].splitlines() == [
            "the GPU's memory ran out", "GPU 0 is full", "it needed at least 79.6 GiB", "ran 1m", "GPUs busy 50%", "ongpu logs 12",
        ]  # fmt: skip
        assert message(job, FAILED, "zh", "box")["title"] == "[失败] box：train (12)"

    def test_every_kind_in_both_languages(self) -> None:
        for kind in (STARTED, DONE, FAILED, WARNED, CANCELLED):
            english, chinese = (message(told(), kind, lang, "box") for lang in ("en", "zh"))
            assert english["title"] != chinese["title"]
            assert english["body"]
            assert english["kind"] in ("info", "success", "warning", "failure")

    def test_hostile_names(self) -> None:
        job = Told(id="1", spec=Spec(command=("x",), name="a\nb\x1b[2J" + "x" * 5000), state="done")
        found = message(job, DONE, "en", "box")
        assert "\n" not in found["title"]
        assert "\x1b" not in found["title"]
        assert len(found["title"]) < 200

    @pytest.mark.parametrize(("state", "kind"), [
        ("done", DONE), ("failed", FAILED), ("lost", FAILED), ("running", STARTED), ("cancelled", CANCELLED), ("waiting", None),
    ])  # fmt: skip
    def test_what_is_told(self, state: str, kind: str | None) -> None:
        assert what(told(state=state)) == kind

    def test_many_are_one_and_the_worst_comes_first(self) -> None:
        many = [message(told(str(n)), DONE, "en", "box") for n in range(30)] + [message(told("99"), FAILED, "en", "box")]
        assert grouped(many[:5], "en", "box") == many[:5]
        (one,) = grouped(many, "en", "box")
        assert one["title"] == "box: 1 failed, 30 done"
        mixed = grouped([message(told(str(n)), kind, "en", "box") for n in range(5) for kind in (STARTED, CANCELLED)], "en", "box")
        assert mixed[0]["title"] == "box: 5 cancelled, 5 started"
        assert one["kind"] == "failure"
        assert one["body"].splitlines()[0] == "[failed] box: train (99)"
        assert len(one["body"].splitlines()) == 21
        assert grouped(many, "zh", "box")[0]["title"] == "box：1 失败，30 完成"


class TestSending:
    def test_who_hears_of_what(self) -> None:
        post = Post()
        notices = Notices(Config(notify=("json://ours",), on=("failed",)), post, "box")
        notices.tell(told(state="done"), DONE, 0.0)
        assert not notices.busy
        notices.tell(told(), FAILED, 0.0)
        notices.tell(told(notify="json://theirs"), DONE, 0.0)
        notices.tell(told(notify="json://theirs"), STARTED, 0.0)
        notices.tell(told(), WARNED, 0.0, "its GPUs have done nothing")
        run(notices, lambda: not notices.busy)
        found = {url: [one["title"] for one in messages] for url, messages in post.sent}
        ours = ["[failed] box: train (12)", "[warning] box: train (12)"]
        assert found == {"json://ours": ours, "json://theirs": ["[done] box: train (12)"]}

    def test_it_waits_for_others(self) -> None:
        post = Post()
        notices = Notices(Config(notify=("json://x",)), post, "box")
        notices.tell(told("1"), FAILED, 0.0)
        notices.step(WAIT - 0.1)
        assert not post.sent
        notices.tell(told("2"), FAILED, WAIT - 0.1)
        run(notices, lambda: not notices.busy, WAIT)
        assert [len(messages) for _, messages in post.sent] == [2]

    def test_what_is_not_taken_is_tried_again_and_at_last_forgotten(self) -> None:
        post = Post("refused")
        notices = Notices(Config(notify=("json://x",)), post, "box")
        notices.tell(told(), FAILED, 0.0)
        took = run(notices, lambda: len(post.sent) == 1)
        notices.step(took)
        for number, wait in enumerate(AGAIN, 2):
            run(notices, lambda: not notices.under, took)
            notices.step(took + wait - 1.0)
            assert len(post.sent) == number - 1
            took = run(notices, lambda number=number: len(post.sent) == number and not notices.under, took + wait + 1.0)  # type: ignore[misc]
        assert not notices.busy
        assert notices.problem == "refused"

    def test_what_was_not_delivered_is_known_of_each_job_until_it_is(self) -> None:
        answers = {"json://x": "refused", "json://y": "no answer within 30 s"}
        notices = Notices(Config(notify=tuple(answers)), lambda url, messages, limit: [answers[url] or None for _ in messages], "box")
        notices.tell(told("1"), FAILED, 0.0)
        assert notices.changed() == {}
        now = run(notices, lambda: len(notices.bad.get("1", {})) == 2)
        assert notices.changed() == {"1": "refused; no answer within 30 s"}
        assert notices.changed() == {}, "once"
        answers["json://x"] = ""
        now = run(notices, lambda: len(notices.bad["1"]) == 1, now + AGAIN[0])
        assert notices.changed() == {"1": "no answer within 30 s"}
        answers["json://y"] = ""
        run(notices, lambda: not notices.busy, now + AGAIN[1])
        assert notices.changed() == {"1": ""}

    def test_a_sender_that_breaks(self) -> None:
        notices = Notices(Config(notify=("json://x",)), lambda url, messages, limit: [], "box")
        notices.tell(told(), FAILED, 0.0)
        run(notices, lambda: notices.problem is not None)

    def test_a_flood_is_bounded(self) -> None:
        notices = Notices(Config(notify=("json://x",)), Post(), "box")
        for number in range(3 * MOST):
            notices.tell(told(str(number)), FAILED, 0.0)
        assert len(notices.waiting["json://x"]) == MOST

    def test_at_the_end(self) -> None:
        post = Post()
        notices = Notices(Config(notify=("json://x",)), post, "box")
        notices.tell(told(), FAILED, time.monotonic())
        notices.close()
        assert len(post.sent) == 1


@pytest.mark.slow
def test_a_real_web_server() -> None:
    pytest.importorskip("apprise")
    with hook() as server:
        notices = Notices(Config(notify=(f"json://127.0.0.1:{server.port}/x",)), host="box")
        notices.tell(told(ending="program", said="ValueError: bad"), FAILED, time.monotonic())
        notices.close(20.0)
        server.until(lambda: bool(server.messages))
        assert server.messages[0]["title"] == "[failed] box: train (12)"
        assert "ValueError: bad" in server.messages[0]["message"]
