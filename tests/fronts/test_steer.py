from collections.abc import Callable

import pytest
from pretend import Pretend

from ongpu.queue.job import Listing

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def some(pretend: Pretend, monkeypatch: pytest.MonkeyPatch) -> Pretend:
    monkeypatch.setattr("ongpu.fronts.steer.me", lambda: "ann")
    pretend.put("1", "running")
    pretend.put("2", "waiting", spec={"name": "a"})
    pretend.put("3", "held")
    pretend.put("4", "done")
    pretend.put("5", "waiting", user="bob")
    pretend.put("7", "waiting", array="6")
    pretend.put("8", "waiting", array="6")
    return pretend


def states(pretend: Pretend) -> str:
    return " ".join(f"{job.id}{job.state[0]}" for job in pretend.told.values())


@pytest.mark.parametrize(
    ("words", "said", "then"),
    [
        (("cancel", "1", "2"), "cancelled: 1, 2", "1c 2c 3h 4d 5w 7w 8w"),
        (("cancel", "1,3,4"), "cancelled: 1, 3 ongpu: not cancelled: 4 (done)", "1c 2w 3c 4d 5w 7w 8w"),
        (("cancel", "6"), "cancelled: 7, 8", "1r 2w 3h 4d 5w 7c 8c"),
        (("cancel", "--all"), "cancelled: 1, 2, 7, 8, 3", "1c 2c 3c 4d 5w 7c 8c"),
        (("hold", "--name", "a"), "held: 2", "1r 2h 3h 4d 5w 7w 8w"),
        (("release", "3"), "released: 3", "1r 2w 3w 4d 5w 7w 8w"),
    ],
)
def test_what_is_done_is_said(ask: Ask, some: Pretend, words: tuple[str, ...], said: str, then: str) -> None:
    code, out, told = ask(*words)
    assert (code, out, states(some)) == (0, "", then)
    assert sorted(told.replace(",", "").split()) == sorted(f"ongpu: {said}".replace(",", "").split())


@pytest.mark.parametrize("engine", ["local", "slurm"])
def test_which_of_an_array_are_meant(ask: Ask, some: Pretend, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    some.name = engine
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(some, "jobs", lambda want: asked.append(want.ids) or Listing(jobs=(), counts={}))
    ask("cancel", "17[0,2-3],18", "19[4]", "20_[1-2]")
    parts = ("17[0]", "17[2]", "17[3]", "18", "19[4]", "20[1]", "20[2]") if engine == "slurm" else ("17[0,2-3]", "18", "19[4]", "20_[1-2]")
    assert asked[0] == parts
    assert ask("cancel", "17[0-99999]")[0] == (2 if engine == "slurm" else 1)
    assert ask("cancel", "17[x]")[0] == (2 if engine == "slurm" else 1)


def test_a_shell_completes_what_may_be_done(some: Pretend) -> None:
    from ongpu.fronts.cli import parser

    found = {}
    for name in ("cancel", "hold", "release", "jobs", "logs"):
        (commands,) = [action for action in parser(name)._actions if isinstance(action.choices, dict)]
        assert isinstance(commands.choices, dict)
        (ids,) = [action for action in commands.choices[name]._actions if action.dest == "ids"]
        found[name] = " ".join(ids.completer(""))
    assert found == {"cancel": "1 2 3 5 7 8", "hold": "2 5 7 8", "release": "3", "jobs": "1 2 3 5 7 8 4", "logs": "1 2 3 5 7 8 4"}


def test_many_are_counted(ask: Ask, some: Pretend) -> None:
    for number in range(20, 60):
        some.put(str(number), "waiting", array="19")
    assert ask("hold", "19")[2] == "ongpu: held: 40 jobs (19)\n"
    assert ask("release", "--all", "--lang", "zh")[2] == "ongpu: 已解除挂起：41 个作业\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("cancel", "99"), 1, "no such job: 99"),
        (("cancel", "4"), 1, "nothing to cancel: 4 (done)"),
        (("hold", "1"), 1, "nothing waits: 1 (running)"),
        (("release", "--all", "--name", "x"), 1, "nothing is held"),
        (("hold",), 2, "hold: ids of jobs, or --all, or --name NAME"),
        (("cancel", "1", "--all"), 2, "cancel: either ids of jobs or --all, not both"),
        (("hold", "1", "--name", "a"), 2, "hold: either ids of jobs or --name, not both"),
    ],
)
def test_what_cannot_be_done_is_said(ask: Ask, some: Pretend, words: tuple[str, ...], code: int, said: str) -> None:
    before = states(some)
    told = ask(*words)
    assert told[0] == code
    assert said in told[2]
    assert states(some) == before
    chinese = ask(words[0], "--lang", "zh", *words[1:])
    assert chinese[0] == code
    assert any("\u4e00" <= char <= "\u9fff" for char in chinese[2])
