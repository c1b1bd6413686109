# ruff: noqa: E501  whole programs stand in one piece
import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.facts.program import Script
from ongpu.facts.traced import aliases, called, jax_steps, jits, loops, results, root, tf_steps, tracer
from ongpu.sources.python_source import script


def _script(text: str) -> Script:
    found = script("train.py", text)
    assert found
    return found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import jax\n@jax.jit\ndef f(x): ...\n", [("f", "jax")]),
        ("from jax import jit as j\nf = j(lambda x: x)\n", [("f", "jax")]),
        ("import jax\nfrom functools import partial\n@partial(jax.jit, static_argnums=0)\ndef f(x): ...\n", [("f", "jax")]),
        ("import jax\nclass A:\n    def __init__(self):\n        self.step = jax.pmap(self.go)\n", [("step", "jax")]),
        ("import tensorflow as tf\n@tf.function(jit_compile=True)\ndef f(x): ...\n", [("f", "tensorflow")]),
        ("import jax\nfrom functools import partial\nf = partial(g, 1)\n@cache\ndef h(x): ...\n", []),
    ],
)
def test_traced_functions(text: str, found: list[tuple[str, str]]) -> None:
    assert [(j.name, j.framework) for j in jits(_script(text))] == found


def test_steps_and_what_they_give() -> None:
    text = "import jax, optax\ndef step(p, x):\n    g = jax.grad(f)(p)\n    return optax.apply_updates(p, g), g\nfor x in data:\n    p, loss = step(p, x)\n"
    found = _script(text)
    steps = list(jax_steps(found))
    (loop,) = loops(found, steps, jits(found))
    assert {e.name for e in steps} == {"jax.grad", "optax.apply_updates"}
    assert results(loop, steps, jits(found)) == {"p", "loss"}
    assert list(tf_steps(found)) == []


def test_steps_of_tensorflow() -> None:
    found = _script("import tensorflow as tf\nm = tf.keras.Sequential()\nm.fit(x)\nclf.fit(x)\nwith tf.GradientTape() as t:\n    y = m(x)\ng = t.gradient(y, v)\n")
    assert [e.line for e in tf_steps(found)] == [3, 7]


@pytest.mark.parametrize(("words", "name"), [("a", "a"), ("a.b[0].c()", "a"), ("f(a)", ""), ("(a + b).c", ""), ("3", "")])
def test_root(words: str, name: str) -> None:
    assert root(ast.parse(words, mode="eval").body) == name


def test_the_name_of_a_call() -> None:
    assert [called(n) for n in ast.walk(ast.parse("self.step(f(x))[0]()")) if isinstance(n, ast.Call)] == ["", "step", "f"]


@given(st.text("abc.()@\n =,", max_size=40))
def test_any_source_is_taken(text: str) -> None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    assert all(tracer(node, aliases(tree)) == "" for node in ast.walk(tree) if isinstance(node, ast.expr))
