# ruff: noqa: E501  programs stand in one piece
import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.facts.depends import depends, names


def _asked(body: str) -> bool:
    """Whether the argument of read(...) in that body depends on i."""
    tree = ast.parse(f"def f(self, i):\n{body}")
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    call = next(n for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "read")
    return depends(call, function)


@pytest.mark.parametrize("body", [" read(i)", " read(self.files[i])", " a = self.files[i]\n b = a + '.npy'\n read(b)", " with open(self.f[i]) as g:\n  read(g)", " for x in self.f[i]:\n  read(x)", " read(path=i)"])
def test_depends(body: str) -> None:
    assert _asked(body)


@pytest.mark.parametrize("body", [" read(self.path)", " read('all.csv').iloc[i]", " a = self.path\n read(a)", " with open(self.path) as g:\n  read(g)", " b = i\n read(self.b)"])
def test_depends_not(body: str) -> None:
    assert not _asked(body)


@given(st.lists(st.sampled_from("abcdi"), min_size=1, max_size=6))
def test_a_chain_of_names_ends(chain: list[str]) -> None:
    lines = "".join(f" {one} = {two}\n" for one, two in zip(chain[1:], chain, strict=False))
    assert _asked(f"{lines} read({chain[-1]})") in (True, False)


def test_names() -> None:
    assert names(ast.parse("a.b(c[d], 'e')")) == {"a", "c", "d"}
