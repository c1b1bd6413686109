"""The marks at the heads of functions."""

import builtins
from textwrap import dedent

import pytest

from ongpu.probes.dryrun.reached import MARK, Reached

SCRIPT = dedent(
    """
    from __future__ import annotations
    import functools

    def used(x):
        "Says it."
        return x + 1

    def unused(): return 1

    class Net:
        def __repr__(self):
            return ""

        def forward(self):
            def inner():
                return 2
            return inner()

        @staticmethod
        def late():
            yield 1

        @functools.lru_cache
        def compiled(self):
            return 3

    told = used(1), used.__doc__, Net().forward(), used.__code__.co_firstlineno
    """
)


@pytest.fixture
def marks() -> object:
    yield
    delattr(builtins, MARK)


def test_functions_that_were_not_entered(marks: object) -> None:
    reached = Reached()
    names: dict[str, object] = {}
    exec(reached.compile(SCRIPT.encode(), "train.py"), names)
    assert names["told"] == (2, "Says it.", 2, 5)
    assert [(row["name"], row["line"], row["end"]) for row in reached.missed()] == [("unused", 9, 9), ("Net.late", 21, 22)]
    assert all(row["file"].endswith("train.py") for row in reached.missed())


def test_a_syntax_error_names_the_line() -> None:
    with pytest.raises(SyntaxError) as caught:
        Reached().compile(b"x = 1\ndef f(:\n", "train.py")
    assert (caught.value.filename, caught.value.lineno) == ("train.py", 2)
