"""`ongpu queue drain|test|return|status`: orders to a daemon that this file plays."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pretend import Pretend

from ongpu.queue.engines.local import alive, orders
from ongpu.queue.engines.local.book import Book
from ongpu.queue.job import Card

Ask = Callable[..., tuple[int, str, str]]
UUIDS = [f"GPU-0000000{n}-aaaa" for n in range(3)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONGPU_QUEUE", str(tmp_path / "queue"))
    monkeypatch.setattr(alive, "rouse", lambda place: None)
    monkeypatch.setattr("ongpu.fronts.queue.cards.HEEDED", 0.3)
    monkeypatch.setattr("ongpu.fronts.queue.cards.TESTED", 0.5)
    with Book(tmp_path / "queue", create=True) as book:
        cards = [Card(id=uuid, index=n, name="NVIDIA A100", memory=81920) for n, uuid in enumerate(UUIDS)]
        book.set_cards(cards, time.time())
    return tmp_path / "queue"


class Heeding:
    """A daemon that heeds orders; `found`: what its tests find."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.given, self.found = folder, list[tuple[str, str]](), "passed"
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.go)
        self.thread.start()

    def go(self) -> None:
        while not self.over.wait(0.02):
            for name, order in orders.waiting(self.folder):
                self.given.append((order.gpu, order.word))
                if order.word == "test":
                    steps = [
                        {"name": "gate", "ok": True, "en": "nothing wrong", "zh": "没有问题"},
                        {"name": "x", "ok": None, "en": "\x1b[2J"},
                    ]
                    orders.keep(self.folder, order.gpu, {"t": time.time(), "result": self.found, "steps": steps})
                orders.heeded(self.folder, [name])


@pytest.fixture
def daemon(folder: Path) -> Iterator[Heeding]:
    made = Heeding(folder)
    yield made
    made.over.set()
    made.thread.join()


def test_gpus_are_drained_and_returned(ask: Ask, daemon: Heeding) -> None:
    assert ask("queue", "drain", "1", UUIDS[2]) == (0, "".join(f"GPU {n}: out of service on this machine\n" for n in (1, 2)), "")
    assert ask("queue", "return", "all", "--untested", "--lang", "zh")[:2] == (0, "".join(f"GPU {n}：已恢复使用\n" for n in range(3)))
    assert daemon.given == [(UUIDS[1], "drain"), (UUIDS[2], "drain"), *((uuid, "return") for uuid in UUIDS)]


@pytest.mark.parametrize(
    ("found", "code", "words"),
    [
        ("passed", 0, "passed"), ("failed", 1, "failed: out of service\n"),
        ("unproven", 1, "nothing is wrong with it, but nothing here could compute on it: stays in service\n"),
    ],
)  # fmt: skip
def test_a_test_is_waited_for(ask: Ask, daemon: Heeding, found: str, code: int, words: str) -> None:
    daemon.found = found
    told = ask("queue", "test", "0")
    assert (told[0], told[1].startswith(f"GPU 0: {words}")) == (code, True)
    assert "  + nothing wrong\n" in told[1]
    assert "\x1b" not in told[1]
    assert "没有问题" in ask("queue", "test", "0", "--lang", "zh")[1]


def test_where_nobody_heeds(ask: Ask, folder: Path) -> None:
    code, out, said = ask("queue", "drain", "0")
    assert (code, out, "it is kept" in said) == (1, "", True)
    assert [order.word for _, order in orders.waiting(folder)] == ["drain"]
    code, _, said = ask("queue", "test", "0")
    assert (code, "it is kept" in said) == (1, True)


def test_a_test_that_has_to_wait(ask: Ask, daemon: Heeding, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "keep", lambda *told: None)
    code, _, said = ask("queue", "test", "0")
    assert (code, "a test waits until no job is on the GPU" in said) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("drain", "7"), "GPU 7: the queue knows 0-2, and their UUIDs"),
        (("return", "0"), "--untested"),
        (("drain", "0", "--engine", "slurm"), "of the local queue only"),
        (("reserve", "lab"), "how many and how long"),
        (("reserve", "lab", "--gpus", "9", "--for", "1h"), "this machine has 3"),
        (("reserve", "lab", "--cancel"), "no such reservation"),
        (("reserve", "--gpus", "2"), "reserve: which?"),
        (("reserve", "--cancel"), "reserve: which?"),
        (("reserve", "lab", "--gpus", "0", "--for", "1h"), "at least 1 GPU"),
        (("reserve", "mine", "--gpus", "2", "--for", "1h"), "this machine has 3, and 2 are reserved already then (first)"),
    ],
)
def test_what_cannot_be_is_one_line(ask: Ask, folder: Path, words: tuple[str, ...], said: str) -> None:
    assert ask("queue", "reserve", "first", "--gpus", "2", "--for", "2h")[0] == 0
    told = ask("queue", *words)
    assert (told[0], told[1], told[2].count("\n")) == (2, "", 1)
    assert said in told[2]
    chinese = ask("queue", *words, "--lang", "zh")[2]
    assert any("\u4e00" <= char <= "\u9fff" for char in chinese)


def test_a_reservation_has_one_name_in_chinese(ask: Ask, folder: Path) -> None:
    told = [ask("queue", "reserve", *words, "--lang", "zh")[1] for words in ((), ("--help",), ("lab", "--gpus", "1", "--for", "1h"))]
    assert told[0] == "没有预留\n"
    told += [ask("submit", "--help", "--lang", "zh")[1], ask("queue", "--help", "--lang", "zh")[1]]
    assert [("预留" in text, "预约" in text) for text in told] == [(True, False)] * 5


def test_a_shell_completes_gpus(folder: Path) -> None:
    from ongpu.fronts.queue.cards import _complete

    assert _complete("") == ["0", "1", "2", "all"]
    assert _complete("a") == ["all"]
    assert _complete("x") == []


def test_status_tells_of_each_gpu(ask: Ask, pretend: Pretend, folder: Path) -> None:
    pretend.cards = (
        Card(id=UUIDS[0], name="NVIDIA A100", memory=81920, used=40960, jobs=("7",)),
        Card(id=UUIDS[1], index=1, state="drained", slug="gpu-lost"),
        Card(id=UUIDS[2], index=2, foreign=("python3 (bob, pid 47)",)),
        Card(id="GPU-3", index=3, slug="drained-by-hand", drained_by="bob"),
        Card(id="GPU-4", index=4, unexplained=3072, state="drained", slug="xid-79"),
    )
    pretend.put("7", "running")
    pretend.advisory = {"cpus": ("--cpus is advisory", "--cpus 只是约定")}
    assert ask("queue", "reserve", "lab", "--gpus", "1", "--for", "4h")[0] == 0
    code, out, _ = ask("queue", "status")
    assert code == 0
    for part in (
        "40.0 / 80.0 GiB",
        "drained",
        "gpu-lost: it does not answer",
        "drained by bob: taken out of service by hand",
        "3 GiB of its memory in use by no program that can be seen",
        "back into service after a passed test: ongpu queue test 1 4\n",
        "xid-79: the driver reported Xid 79",
        "python3 (bob, pid 47)",
        "1 running",
        "lab  1 GPU  ",
        "does not run",
    ):
        assert part in out
    assert max(len(line) for line in out.splitlines() if not line.startswith("folder ")) <= 80  # a path is as long as it is
    pretend.warning = ("nothing starts", "没有作业会启动")
    code, out, _ = ask("queue", "status", "--lang", "zh")
    assert (code, "没有作业会启动" in out, "GPU 无应答" in out) == (1, True, True)
    told = json.loads(ask("queue", "status", "--format", "json")[1])
    assert (told["daemon"], told["counts"], len(told["gpus"])) == (None, {"running": 1}, 5)
    assert [(one["name"], one["gpus"]) for one in told["reservations"]] == [("lab", 1)]
    assert told["advisory"] == {"cpus": {"en": "--cpus is advisory", "zh": "--cpus 只是约定"}}


def test_the_history_can_be_replayed(ask: Ask, folder: Path, tmp_path: Path) -> None:
    from ongpu.queue.engines.local.rows import Finish
    from ongpu.queue.job import Spec

    assert "has run yet" in ask("queue", "simulate")[2]
    with Book(folder) as book:
        ids = book.submit([Spec(command=("x",), name="x", environ={"TOKEN": "s3cret"})] * 2, "ann", 1000.0)
        book.claim([(job, [(UUIDS[place], 0)]) for place, job in enumerate(ids)], 1010.0)
        book.started([(job, 1) for job in ids], 1010.0)
        book.finish([Finish(job=job, attempt=1, code=0, ending="ok", then="done", used=100.0) for job in ids], 1110.0)
    code, out, _ = ask("queue", "history")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, [row["gpus"] for row in rows], "s3cret" in out) == (0, [1, 1], False)
    (tmp_path / "trace").write_text(out)
    for words in (("queue", "simulate", "--gpus", "2"), ("queue", "simulate", str(tmp_path / "trace"), "--gpus", "2")):
        told = json.loads(ask(*words, "--policy", "ours", "--format", "json")[1])
        assert (told["jobs"], told["policies"]["ours"]["mean"]) == (2, pytest.approx(100 / 3600))
    assert ask("queue", "history", "--since", "1h")[:2] == (0, "")
    assert ask("queue", "history", "--since", "soon")[0] == 2
