# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import lint

HEAD = "import jax\n\n@jax.jit\ndef step(params, state, x):\n    return params, state, x.sum()\n\n"


def told(text: str) -> list[tuple[int, str]]:
    return [(f.refs[0].line, str(f.values["places"])) for f in lint(text).findings if f.slug == "buffers-not-donated"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (HEAD + "for x in data:\n    params, state, loss = step(params, state, x)\n", (8, "0, 1")),
        (HEAD.replace("@jax.jit\n", "") + "run = jax.jit(step)\nfor x in data:\n    params, _, loss = run(params, {}, x)\n", (8, "0,")),
        ("from functools import partial\n" + HEAD.replace("@jax.jit", "@partial(jax.jit, static_argnames=('n',))") + "while True:\n    self.params, s, l = step(self.params, {}, x)\n", (9, "0,")),
    ],
)  # fmt: skip
def test_found(text: str, found: tuple[int, str]) -> None:
    assert told(text) == [found]


@pytest.mark.parametrize(
    "text",
    [
        HEAD.replace("@jax.jit", "@partial(jax.jit, donate_argnums=(0, 1))") + "for x in data:\n    params, state, loss = step(params, state, x)\n",
        HEAD + "for x in data:\n    new, other, loss = step(params, state, x)\n",
        HEAD + "params, state, loss = step(params, state, x)\n",
        HEAD.replace("@jax.jit\n", "") + "for x in data:\n    params, state, loss = step(params, state, x)\n",
        "import torch\nfor x in data:\n    h = step(h)\n",
    ],
)  # fmt: skip
def test_neighbours(text: str) -> None:
    assert told(text) == []
