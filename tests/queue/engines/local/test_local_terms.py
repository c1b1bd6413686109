"""What the local engine tells of its rules to who asks when a job starts."""

import os
from pathlib import Path

import pytest

from ongpu.queue.admission import Reservation
from ongpu.queue.config import Config, Quota, Quotas
from ongpu.queue.engines.local import possible
from ongpu.queue.engines.local.book import Book, Finish
from ongpu.queue.engines.local.engine import Local
from ongpu.queue.job import DONE, Card, Spec

NOW = 1_800_000_000.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONGPU_QUEUE", str(tmp_path / "queue"))
    return tmp_path / "queue"


def test_what_was_used_and_is_reserved_is_read_from_the_book(folder: Path) -> None:
    later = Reservation(name="later", begin=NOW + 100, end=NOW + 200, gpus=1)
    with Book(folder, create=True) as book:
        book.set_cards([Card(id="GPU-0", memory=81920), Card(id="GPU-1", memory=81920)], NOW)
        first, second = book.submit([Spec(command=("x",), gpus=1), Spec(command=("y",), gpus=1)], "ann", NOW - 5000)
        book.claim([(first, [("GPU-0", 0)]), (second, [("GPU-1", 0)])], NOW - 4000)
        book.started([(first, 1), (second, 1)], NOW - 4000)
        book.finish([Finish(job=first, attempt=1, code=0, ending="ok", then=DONE, used=3000.0)], NOW - 1000)
        book.reserve(Reservation(name="over", begin=NOW - 900, end=NOW - 800, gpus=1), NOW - 950)
        book.reserve(later, NOW)
    quotas = Quotas(each=Quota(gpus=2))
    terms = Local(Config(quotas=quotas, cpus=3, host_memory=4096)).terms(NOW)
    assert [(name, used) for name, _, used in terms.used] == [("user:ann", 3000.0)]  # what still runs is added by who reckons
    assert terms.policy.spent["user:ann"] == pytest.approx(7000.0, rel=0.01)
    assert list(terms.reservations) == [later]
    assert (terms.quotas, terms.cpus, terms.host_memory) == (quotas, 3, 4096)


def test_without_a_word_of_quotas_there_are_none(folder: Path) -> None:
    Book(folder, create=True).close()
    terms = Local(Config()).terms(NOW)
    assert terms.quotas is None
    assert terms.cpus == len(os.sched_getaffinity(0))
    assert terms.host_memory == possible.host_memory(Config())
