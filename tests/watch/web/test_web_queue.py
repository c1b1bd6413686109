"""The page of the queue as functions, what is asked of its engine, and the chart of what ran where."""

import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_web_pages import EVIL, Elements, harmless

from ongpu.lazy import replace as changed
from ongpu.queue.asked import RETRIES
from ongpu.queue.config import Cost, Quota, Quotas
from ongpu.queue.engines import EngineError
from ongpu.queue.forecast import Terms
from ongpu.queue.job import CANCELLED, DONE, FAILED, LIVE, OVER, RUNNING, WAITING, Card, Listing, Spec, Told, Want
from ongpu.queue.reasons import Reason
from ongpu.watch.web import gantt
from ongpu.watch.web.pages import queue as page
from ongpu.watch.web.queue import foretold, reading
from ongpu.watch.web.queue.demo import Made, opening
from ongpu.watch.web.queue.opening import may_submit, of, priced
from ongpu.watch.web.queue.reading import Queue, Run, Seen, title
from ongpu.watch.web.queue.sums import Share, shares
from ongpu.watch.web.reading import Reader

NOW = 1_800_000_000.0
HOUR = 3600.0


def told(number: int = 1, state: str = WAITING, spec: Spec | None = None, **more: Any) -> Told:
    return Told(id=str(number), spec=spec or Spec(command=("python", "train.py")), state=state, user=more.pop("user", "ann"), **more)


@pytest.fixture
def seen() -> Iterator[Seen]:
    """The made-up queue."""
    queue = Queue(opening())
    yield queue.seen()
    queue.close()


class Scripted(Made):
    """A made-up queue that counts what it is asked, and may be slow or broken."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.asked: list[str] = []
        self.threads: set[int] = set()
        self.broken: Exception | None = None

    def jobs(self, want: Want) -> Listing:
        self.asked.append("jobs")
        self.threads.add(threading.get_ident())
        if self.broken:
            raise self.broken
        return super().jobs(want)

    def history(self, since: float) -> Iterator[Told]:
        self.asked.append("history")
        return super().history(since)


# -- what is asked of the engine


def test_many_who_ask_at_once_make_one_question_in_one_thread() -> None:
    engine = Scripted()
    queue = Queue(opening(lambda: engine))
    found: list[Seen] = []
    threads = [threading.Thread(target=lambda: found.append(queue.seen())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    assert engine.asked.count("jobs") <= 2
    assert len(engine.threads) == 1
    assert threading.get_ident() not in engine.threads
    queue.close()


@pytest.mark.parametrize("error", [EngineError("the disk is full", "磁盘已满", 69), OSError("gone"), ValueError("no JSON")])
def test_an_engine_that_fails_is_told_and_asked_again(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Scripted()
    queue = Queue(opening(lambda: engine))
    engine.broken = error
    first = queue.seen()
    assert first.problem
    assert str(error) in first.problem.english
    assert first.jobs == ()
    assert "No queue" in harmless(page.banners(first, "en"))
    engine.broken = None
    monkeypatch.setattr(reading, "FRESH", 0.0)
    assert queue.seen().jobs
    queue.close()


def test_an_engine_that_hangs_does_not_hang_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    class Slow(Made):
        def jobs(self, want: Want) -> Listing:
            go.wait(20)
            return super().jobs(want)

    monkeypatch.setattr(reading, "LIMIT", 0.2)
    queue = Queue(opening(Slow))
    begin = time.monotonic()
    found = queue.seen()
    assert time.monotonic() - begin < 5
    assert found.problem
    assert "does not answer" in found.problem.english
    go.set()
    queue.close()


def test_an_engine_that_cannot_be_opened_is_not_tried_at_every_question() -> None:
    tries = []

    def refuse(_: Queue) -> Made:
        tries.append(1)
        raise EngineError("no folder", "没有目录")

    queue = Queue(refuse)
    for _ in range(3):
        queue._seen = None
        assert queue.seen().problem
    assert len(tries) == 1
    queue.close()


def test_the_past_is_read_once_and_then_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "FRESH", 0.0)
    engine = Scripted()
    since: list[float] = []
    plain = engine.history
    engine.history = lambda at: since.append(at) or plain(at)  # type: ignore[assignment, func-returns-value, return-value]
    queue = Queue(opening(lambda: engine))
    whole = queue.seen().runs
    assert len(whole) > 300
    monkeypatch.setattr(reading, "PAST", 0.0)
    now = time.time()
    engine.past.append(told(99, DONE, started=now - 5, ended=now, gpus=("GPU-x",), attempts=1))
    again = queue.seen().runs
    assert len(again) == len(whole) + 1
    assert since[1] > since[0] + 86_400
    queue.close()


def test_the_past_that_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "RUNS", 50)
    queue = Queue(opening())
    found = queue.seen()
    assert found.cut
    ended = [run for run in found.runs if run.ended is not None]
    assert len(ended) == 50
    assert min(run.ended or 0 for run in ended) > time.time() - 2 * 86_400  # the newest are kept
    queue.close()


def test_each_attempt_of_a_job_is_a_run_of_its_own() -> None:
    class Twice(Made):
        def history(self, since: float) -> Iterator[Told]:
            yield told(5, WAITING, started=NOW - 90, ended=NOW - 60, gpus=("a",), attempts=1, ending="gpu-fault")
            yield told(5, DONE, started=NOW - 50, ended=NOW - 10, gpus=("b",), attempts=2, ending="ok")

    queue = Queue(opening(lambda: Twice(clock=lambda: NOW)))
    queue.open(queue)
    queue._remember(Listing(jobs=(), counts={}), NOW)
    assert [(run.attempt, run.gpus) for run in queue._past.values()] == [(1, ("a",)), (2, ("b",))]
    queue.close()


def test_the_end_of_a_large_output_is_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loud(Made):
        def output(self, job: str, follow: bool = False, attempt: int | None = None) -> Iterator[bytes]:
            yield from (b"%d\n" % number * 1000 for number in range(10_000_000))

    monkeypatch.setattr(reading, "READ", 1 << 20)
    queue = Queue(opening(Loud))
    begin = time.monotonic()
    tail = queue.tail("1")
    assert len(tail) == reading.TAIL
    assert time.monotonic() - begin < 5
    queue.close()


def test_submitting_is_checked_and_gets_a_plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONGPU_SECRET_TOKEN", "x")
    monkeypatch.setenv("PATH", "/bin")
    engine = Made()
    queue = Queue(opening(lambda: engine), submits=True)
    (number,) = queue.submit([Spec(command=("true",), gpus=1)])
    spec = next(job for job in engine.live if job.id == number).spec
    assert spec.environ["PATH"] == "/bin"
    assert "ONGPU_SECRET_TOKEN" not in spec.environ
    assert spec.folder.startswith("/")
    assert spec.retries == RETRIES, "as in the shell, where nothing is said"
    for asked in (0, 3):
        (other,) = queue.submit([Spec(command=("true",))], asked)
        assert next(job for job in engine.live if job.id == other).spec.retries == asked
    for wrong in (Spec(command=()), Spec(command=("true",), gpus=-1), Spec(command=("a\0b",)), Spec(command=("true",), notify="mailto://a@b")):
        with pytest.raises(EngineError):
            queue.submit([wrong])
    queue.submits = False
    with pytest.raises(EngineError, match="may not be submitted"):
        queue.submit([Spec(command=("true",))])
    queue.close()


@pytest.mark.parametrize(("loopback", "told_", "root", "wanted"), [
    (True, None, False, True), (True, None, True, False), (False, None, False, False), (False, True, True, True),
    (True, False, False, False),
])  # fmt: skip
def test_who_may_submit(monkeypatch: pytest.MonkeyPatch, loopback: bool, told_: bool | None, root: bool, wanted: bool) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0 if root else 1000)
    assert may_submit(loopback, told_) is wanted


def test_prices_are_by_model_and_nothing_is_made_up() -> None:
    price = priced(Cost(gpu_hour={"H100": 3.0, "": 1.0}, kwh=0.5))
    assert price("NVIDIA H100 80GB", 2.0, 4.0) == 8.0
    assert price("NVIDIA A100", 2.0, None) == 2.0
    assert priced(Cost())("NVIDIA H100", 2.0, 4.0) is None


# -- who had how much


def run(job: int = 1, start: float = 3.0, end: float | None = 1.0, gpus: Sequence[str] = ("a",), **more: Any) -> Run:
    """start, end: hours before now."""
    more = {"name": "x", "user": "ann", "project": "p", **more}
    return Run(job=str(job), gpus=tuple(gpus), started=NOW - start * HOUR, ended=None if end is None else NOW - end * HOUR, **more)


def test_hours_are_cut_at_the_begin_of_the_span() -> None:
    runs = (run(1, 8, 4, ("a", "b"), energy=7.2e6), run(2, 1, None, ("c",), user="bob"), run(3, 30, 20, user="old"))
    jobs = (told(9, user="bob"), told(10, user="eve"))
    listing = Listing(jobs=jobs, counts={}, cards=(Card(id="a", name="H100"),))
    seen = Seen(NOW, "local", listing, None, runs)
    found = {one.name: one for one in shares(seen, 6 * HOUR, "user", lambda model, hours, kwh: hours * 2)}
    assert found["ann"] == Share("ann", 0, 0, 1, pytest.approx(4.0), pytest.approx(1.0), pytest.approx(8.0))
    assert (found["bob"].running, found["bob"].waiting, found["bob"].hours) == (1, 1, pytest.approx(1.0))
    assert found["eve"] == Share("eve", 0, 1, 0, 0.0, None, None)
    assert "old" not in found
    assert [one.name for one in shares(seen, 6 * HOUR, "project", lambda *_: None)] == ["p", ""]


# -- the chart


def placed(runs: Sequence[Run], hours: float = 24.0) -> dict[str, list[gantt.Bar]]:
    return gantt.bars(runs, NOW - hours * HOUR, NOW)


def test_jobs_that_share_a_gpu_have_lanes_of_their_own() -> None:
    found = placed([run(1, 6, 2), run(2, 5, 1), run(3, 1.5, None), run(4, 0.9, 0.1)])["a"]
    assert {bar.run.job: bar.lane for bar in found} == {"1": 0, "2": 1, "3": 0, "4": 1}


def test_short_runs_are_one_bar_and_failures_among_them_are_counted() -> None:
    times = [2 - number * 0.001 for number in range(300)]
    runs = [run(number, at, at - 0.0009, ending="ok" if number % 10 else "program") for number, at in enumerate(times)]
    found = placed(runs)["a"]
    assert len(found) < 20
    assert sum(bar.count for bar in found) == 300
    assert sum(bar.bad for bar in found) == 30


spans = st.tuples(st.floats(0, 40), st.floats(0, 10), st.booleans())


@given(st.lists(spans, max_size=60))
def test_bars_never_lie_on_each_other_and_none_is_lost(times: list[tuple[float, float, bool]]) -> None:
    runs = [run(number, start, None if live else max(start - length, 0.0)) for number, (start, length, live) in enumerate(times)]
    shown = [one for one in runs if one.ended is None or one.ended > NOW - 24 * HOUR]
    found = placed(runs).get("a", [])
    assert sum(bar.count for bar in found) == len(shown)
    lanes: dict[int, list[gantt.Bar]] = {}
    for bar in found:
        assert NOW - 24 * HOUR <= bar.started <= bar.until <= NOW
        lanes.setdefault(bar.lane, []).append(bar)
    for number, lane in lanes.items():
        if number < gantt.LANES - 1:  # the last one takes all the rest
            assert all(one.until <= other.started for one, other in pairwise(sorted(lane, key=lambda bar: (bar.started, bar.until))))


def test_a_thousand_gpus_and_fifty_thousand_runs_stay_small() -> None:
    cards = [Card(id=f"g{number}", index=number) for number in range(1000)]
    times = [20 - number * 0.0004 for number in range(50_000)]
    runs = [run(number, at, at - 0.01, (f"g{number % 1000}",), user=f"u{number % 50}") for number, at in enumerate(times)]
    begin = time.perf_counter()
    html = gantt.chart(runs, cards, [], NOW - 24 * HOUR, NOW, "en")
    assert time.perf_counter() - begin < 4
    assert len(html) < 3_000_000
    assert html.count('role="listitem"') == gantt.ROWS
    assert "and 936 more GPUs" in html


def test_a_users_colour_stays_when_others_come() -> None:
    first = gantt.colours([run(1, user="bob"), run(2, user="ann")])
    assert first == {"ann": 0, "bob": 1}
    many = gantt.colours([run(number, user=f"u{number % 20:02}") for number in range(100)])
    assert len(many) == gantt.HUES - 1


def test_faults_stand_behind_their_own_gpu_only(seen: Seen) -> None:
    incidents = [
        {"slug": "ecc-uncorrectable", "gpu_uuid": seen.cards[3].id, "severity": "error", "opened": seen.at - 7200, "closed": seen.at - 3600,
         "words": {"en": {"title": "ECC & more"}}},
        {"slug": "host-bound", "gpu_uuid": seen.cards[2].id, "severity": "warning", "opened": seen.at - 7200, "closed": None},
    ]  # fmt: skip
    found = page.faults(seen, incidents, "en")
    assert [(fault.gpu, fault.ended is None) for fault in found] == [(seen.cards[3].id, False), (seen.cards[7].id, True)]
    html = page.picture(seen, "24h", incidents, "en")
    rows = html.split('class="gantt-row"')
    assert "ECC &amp; more" in rows[4]
    assert sum("fault error" in row for row in rows[1:9]) == 2
    harmless(html)


@pytest.mark.parametrize("span", ["6h", "24h", "7d"])
def test_every_span_has_marks_and_a_line_where_now_is(seen: Seen, span: str) -> None:
    html = page.picture(seen, span, [], "zh")
    assert 3 <= html.count('class="mark"') <= 8
    assert html.count("now-line") == 8
    for left, width in re.findall(r"left:([\d.]+)%;width:([\d.]+)%", html):
        assert float(left) + float(width) <= 100.2


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_the_chart_shows_stands_in_a_table_too(seen: Seen, lang: str) -> None:
    html = page.table(seen, "24h", lang)
    text = harmless(html)
    for run_ in seen.runs:
        if run_.ended is None or run_.ended > seen.at - 86_400:
            assert f'href="/queue/{run_.job}"' in html
    assert "GPU 0, 1" in text
    assert page.table(replace(seen, runs=()), "24h", lang) == ""


# -- the tables


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_says_what_is_so(seen: Seen, lang: str) -> None:
    had = shares(seen, 86_400.0, "user", lambda model, hours, kwh: hours)
    parts = [page.tiles(seen, had, "24h", "EUR", lang), page.cards(seen, lang), page.running(seen, lang), page.waiting(seen, lang),
             page.ended(seen, lang), page.shares(had, "user", "EUR", lang)]  # fmt: skip
    text = "".join(map(harmless, parts))
    for word in ("pretrain-7b", "alice", "GPU 0, 1", "ipykernel_launcher", "6 / 8", "EUR"):
        assert word in text
    assert ("out of service" in text) == (lang == "en")
    assert ("符合要求的 GPU" in text) == (lang == "zh")
    for part in parts[1:]:
        rows = [attributes for name, attributes in Elements(part).found if name == "td"]
        assert all(attributes.get("data-name") for attributes in rows)


def test_reasons_and_starts_are_told(seen: Seen) -> None:
    text = harmless(page.waiting(seen, "en"))
    assert "only 7 here are healthy and large enough" in text
    assert text.count("not known") == 2  # one is held, one can never start
    assert '["behind"' not in text
    first = next(job for job in seen.jobs if job.state == WAITING)
    assert seen.at <= seen.expected[first.id] < seen.at + 24 * HOUR


def test_a_start_is_told_as_roughly_as_it_is_known(seen: Seen) -> None:
    first = next(job for job in seen.jobs if job.state == WAITING)
    at = time.mktime((2026, 12, 1, 12, 0, 0, 0, 0, -1))
    for later, english, chinese in (
        (2.0, "at any moment", "很快"), (5400.0, "in 2 h (13:30)", "2 小时后（13:30）"),
        (86_400.0, "in 24 h (12-02 12:00)", "24 小时后（12-02 12:00）"),
    ):  # fmt: skip
        told = replace(seen, at=at, expected={first.id: at + later})
        assert english in harmless(page.waiting(told, "en"))
        assert chinese in harmless(page.waiting(told, "zh"))


def test_where_not_all_are_shown_it_is_said_what_lists_them(seen: Seen) -> None:
    assert seen.listing
    some = replace(seen, listing=replace(seen.listing, counts={"done": page.FEW + 1, "waiting": 3}))
    assert f"{page.FEW + 1} in all: ongpu jobs --all lists them" in harmless(page.ended(some, "en"))
    assert "in all" not in harmless(page.waiting(some, "en"))


def test_a_start_that_the_engine_tells_is_taken_over() -> None:
    listing = Listing(jobs=(told(1, more={"expected": NOW + 60}), told(2, more={"expected": "soon"}), told(3)), counts={})
    assert foretold.expected(listing, None, NOW) == {"1": NOW + 60}


def test_what_no_replay_knows_of_is_not_foretold() -> None:
    card = Card(id="a", memory=80_000)
    spec = Spec(command=("x",), limit=HOUR)
    jobs = (told(1, spec=spec, said=Reason("blind").json()), told(2, spec=spec), told(3, spec=spec, said="Resources"))
    listing = Listing(jobs=jobs, counts={}, cards=(card,))
    assert set(foretold.expected(listing, lambda now: Terms(), NOW)) == {"2"}
    assert foretold.expected(replace(listing, warning=("a", "b")), lambda now: Terms(), NOW) == {}


def test_what_is_behind_more_than_was_looked_at_is_not_foretold(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = (told(1, array="9"), told(2, spec=Spec(command=("x",), after=(("any", "9"),))))
    listing = Listing(jobs=jobs, counts={"waiting": 1000}, cards=(Card(id="a"), Card(id="b")))
    assert set(foretold.expected(listing, lambda now: Terms(), NOW)) == {"1"}
    spec = Spec(command=("x",), limit=HOUR)
    listing = Listing(jobs=(told(1, spec=spec), told(2, spec=spec)), counts={}, cards=(Card(id="a"),))
    assert foretold.expected(listing, lambda now: Terms(), NOW) == {"1": NOW, "2": NOW + HOUR}
    monkeypatch.setattr(foretold, "LIMIT", -1.0)  # it took too long
    assert foretold.expected(listing, lambda now: Terms(), NOW) == {"1": NOW}


def test_a_quota_is_heeded_by_what_is_foretold() -> None:
    spec = Spec(command=("x",), limit=HOUR)
    listing = Listing(jobs=(told(1, spec=spec), told(2, spec=spec)), counts={}, cards=(Card(id="a"), Card(id="b")))
    assert set(foretold.expected(listing, lambda now: Terms(), NOW).values()) == {NOW}
    quotas = Quotas(each=Quota(gpus=1))
    assert sorted(foretold.expected(listing, lambda now: Terms(quotas=quotas), NOW).values()) == [NOW, NOW + HOUR]


def test_a_hundred_thousand_that_wait_are_a_number() -> None:
    queue = Queue(opening(lambda: Made(more=100_000)))
    queue.seen()
    queue._seen = None
    begin = time.perf_counter()
    found = queue.seen()
    html = page.waiting(found, "en") + page.tiles(found, [], "24h", "", "en")
    assert time.perf_counter() - begin < 1.0
    assert len(html) < 200_000
    assert "100\u2009004" in harmless(page.tiles(found, [], "24h", "", "en"))
    assert "100\u2009005 in all" in harmless(html)
    queue.close()


@pytest.mark.slow
def test_a_hundred_thousand_in_the_real_book_do_not_slow_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ongpu.queue.config import Config
    from ongpu.queue.engines.local.book import Book
    from ongpu.queue.engines.local.engine import Local

    monkeypatch.setenv("ONGPU_QUEUE", str(tmp_path / "queue"))
    spec = Spec(command=("true",), name="sweep", folder="/tmp", environ={"PATH": "/bin"})
    with Book(tmp_path / "queue", create=True) as book:
        book.set_cards([Card(id=f"GPU-{index}", index=index, memory=80_000) for index in range(8)], time.time())
        for part in range(10):
            book.submit([changed(spec, index=part * 10_000 + number) for number in range(10_000)], "ann", time.time())
    reader = Reader(tmp_path / "none.db")
    queue = of(reader, False)
    queue.open = lambda _: Local(Config())
    queue.seen()
    took = []
    for _ in range(5):
        queue._seen = None
        begin = time.perf_counter()
        found = queue.seen()
        html = "".join(part(found, "en") for part in (page.waiting, page.running, page.ended, page.cards))
        html += page.tiles(found, [], "24h", "", "en") + page.picture(found, "24h", [], "en")
        took.append(time.perf_counter() - begin)
    assert found.count(WAITING) == 100_000
    assert len(html) < 200_000
    assert min(took) < 0.5
    assert "does not run" in harmless(page.banners(found, "en"))
    queue.close()


def test_nobodys_queue_is_empty_and_says_how_one_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONGPU_QUEUE", str(tmp_path / "queue"))
    monkeypatch.setenv("ONGPU_QUEUE_CONFIG", str(tmp_path / "queue.toml"))
    (tmp_path / "queue.toml").write_text("[cost]\nper_gpu_hour = 2\ncurrency = 'EUR'\n")
    queue = of(Reader(tmp_path / "none.db"), False)
    found = queue.seen()
    assert found.problem is None
    assert "`ongpu submit`".strip("`") in harmless(page.banners(found, "en"))
    assert (queue.currency, queue.cost("H100", 3.0, None)) == ("EUR", 6.0)
    assert not (tmp_path / "queue").exists()  # looking makes nothing
    queue.close()
    (tmp_path / "queue.toml").write_text("[cost]\nper_gpu_hour = 'x'\n")
    queue = of(Reader(tmp_path / "none.db"), False)
    assert "queue.toml" in harmless(page.banners(queue.seen(), "en"))
    queue.close()


def test_another_scheduler_is_asked_less_often() -> None:
    engine = Scripted()
    engine.name = "slurm"
    queue = Queue(opening(lambda: engine))
    queue.seen()
    for ago, asked in ((2.0, 1), (reading.FAR + 1, 2)):
        assert queue._seen
        queue._seen = replace(queue._seen, at=time.time() - ago)
        queue.seen()
        assert engine.asked.count("jobs") == asked
    queue.close()


def test_arguments_of_a_command_are_not_its_title() -> None:
    assert title(told(spec=Spec(command=("python", "/home/a/train.py", "--key", "hf_secret")))) == "train.py"
    assert title(told(spec=Spec(command=("x",), name="sweep", index=4))) == "sweep [4]"
    assert "hf_secret" not in page.job_page(told(spec=Spec(command=("train.py", "hf_secret"))), Seen(NOW), [], None, "en")


@pytest.mark.parametrize(("state", "ending", "en", "zh"), [
    (DONE, "ok", "done", "完成"), (FAILED, "gpu-fault", "GPU fault", "GPU 故障"),
    (FAILED, "out-of-memory", "GPU memory ran out", "显存不足"),
    (CANCELLED, "stopped", "cancelled", "已取消"), (FAILED, "of-tomorrow", "of-tomorrow", "of-tomorrow"),
])  # fmt: skip
def test_how_a_job_ended(state: str, ending: str, en: str, zh: str) -> None:
    found = Seen(NOW, "local", Listing(jobs=(told(1, state, ending=ending, started=NOW - 50, ended=NOW, code=1),), counts={}))
    assert en in harmless(page.ended(found, "en"))
    assert zh in harmless(page.ended(found, "zh"))


def test_a_job_without_times_gpus_or_words_is_shown() -> None:
    bare = [told(number, state, submitted=0.0) for number, state in enumerate((*LIVE, *OVER))]
    found = Seen(NOW, "ray", Listing(jobs=tuple(bare), counts={}))
    for lang in ("en", "zh"):
        for part in (page.running, page.waiting, page.ended):
            harmless(part(found, lang))
        for job in bare:
            harmless(page.job_page(job, found, [], "", lang))
    assert "knows no GPU" in harmless(page.cards(found, "en"))
    assert "Nothing ran" in harmless(page.picture(found, "24h", [], "en"))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_text_of_others_becomes_a_part_of_the_page(lang: str) -> None:
    spec = Spec(command=(EVIL, EVIL), name=EVIL, project=EVIL, model=EVIL, folder=EVIL, reservation=EVIL)
    common = {"user": EVIL, "node": EVIL, "gpus": (EVIL,), "said": EVIL, "ending": EVIL, "slug": EVIL, "started": NOW - 9000}
    ends = ((RUNNING, None), (WAITING, None), (FAILED, NOW))
    jobs = tuple(changed(told(0, state, spec, ended=ended, **common), id=EVIL) for state, ended in ends)
    card = Card(id=EVIL, name=EVIL, node=EVIL, state=EVIL, slug=EVIL, since=NOW - 60, foreign=(EVIL,), holder=EVIL, jobs=(EVIL, "other"))
    runs = (run(1, gpus=(EVIL,), name=EVIL, user=EVIL, project=EVIL, ending=EVIL), run(2, 0.5, None, (EVIL,), name=EVIL, user=EVIL))
    found = Seen(NOW, EVIL, Listing(jobs=jobs, counts={}, cards=(card,), warning=(EVIL, EVIL)), None, runs)
    body = {"slug": EVIL, "gpu_uuid": EVIL, "severity": "error", "opened": NOW - 60, "closed": None, "words": {lang: {"title": EVIL}}}
    had = shares(found, 86_400.0, "user", lambda *_: 1.0)
    parts = [
        page.banners(found, lang), page.banners(Seen(NOW, problem=EngineError(EVIL, EVIL)), lang),
        page.tiles(found, had, "24h", EVIL, lang),
        page.cards(found, lang), page.running(found, lang), page.waiting(found, lang), page.ended(found, lang),
        page.picture(found, "24h", [body], lang), page.shares(had, "user", EVIL, lang),
        page.job_page(jobs[2], found, [(EVIL, EVIL)], EVIL, lang),
    ]  # fmt: skip
    for part in parts:
        harmless(part)
    assert sum(EVIL in Elements(part).text for part in parts) > 6


def test_an_id_leads_nowhere_but_to_its_job() -> None:
    html = gantt.chart([replace(run(1, 5, 1), job="../login?next=//x")], [], [], NOW - 24 * HOUR, NOW, "en")
    assert [one["href"] for name, one in Elements(html).found if name == "a"] == ["/queue/..%2Flogin%3Fnext%3D%2F%2Fx"]
