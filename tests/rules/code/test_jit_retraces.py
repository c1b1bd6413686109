# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import lint, linted

JAX = "import jax\nimport jax.numpy as jnp\nfrom functools import partial\n"
TF = "import tensorflow as tf\n"


def _found(text: str) -> list[tuple[str, int]]:
    return [(f.variant, f.refs[0].line) for f in lint(text).findings if f.slug == "jit-retraces"]


@pytest.mark.parametrize(
    ("text", "variant", "line"),
    [
        (JAX + "for x in data:\n    f = jax.jit(lambda p: p * 2)\n    p = f(p)\n", "fresh", 5),
        (JAX + "for x in data:\n    p = jax.jit(partial(step, lr=0.1))(p, x)\n", "fresh", 5),
        (JAX + "for i in range(99):\n    def loss(p):\n        return (p * 2).sum()\n    g = jax.jit(loss)(p)\n", "fresh", 7),
        (JAX + "def step(p, x):\n    @jax.jit\n    def loss(p):\n        return (p * x).sum()\n    return p - loss(p)\nfor x in data:\n    p = step(p, x)\n", "fresh", 6),
        ("from jax import jit\nwhile go:\n    y = jit(lambda v: v + 1)(y)\n", "fresh", 3),
        (TF + "for x in ds:\n    f = tf.function(lambda v: v + 1)\n    f(x)\n", "fresh", 3),
        (JAX + "@partial(jax.jit, static_argnums=(1,))\ndef step(p, i):\n    return p * i\nfor i in range(100):\n    p = step(p, i)\n", "static", 8),
        (JAX + "def f(p, i):\n    return p * i\nstep = jax.jit(f, static_argnames='i')\nfor i, x in enumerate(data):\n    p = step(p, i=i + 1)\n", "static", 8),
        (TF + "@tf.function\ndef step(x, i):\n    return x * i\nfor i, x in enumerate(ds):\n    step(x, i)\n", "number", 6),
        (TF + "class T:\n    @tf.function\n    def step(self, x, epoch):\n        return x * epoch\n    def fit(self):\n        for epoch in range(9):\n            self.step(x, epoch)\n", "number", 8),
    ],
)
def test_found(text: str, variant: str, line: int) -> None:
    assert _found(text) == [(variant, line)]
    assert "jit-retraces" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        JAX + "f = jax.jit(lambda p: p * 2)\nfor x in data:\n    p = f(p)\n",
        JAX + "@jax.jit\ndef step(p, i):\n    return p * i\nfor i in range(100):\n    p = step(p, i)\n",  # traced, not static
        JAX + "def loss(p):\n    return p\nfor x in data:\n    p = jax.jit(loss)(p)\n",  # the cache knows this function
        JAX + "for n in (1, 2, 4):\n    f = jax.jit(lambda p: p * 2)\n    f(p)\n",
        JAX + "for n in sizes:\n    f = jax.jit(lambda p: p * n)\n    f(p)\n",
        JAX + "f = None\nfor x in data:\n    if f is None:\n        f = jax.jit(lambda p: p * 2)\n    f(x)\n",
        JAX + "@jax.jit\ndef step(p, x):\n    @jax.jit\n    def loss(p):\n        return (p * x).sum()\n    return p - loss(p)\nfor x in data:\n    p = step(p, x)\n",
        JAX + "def train(p):\n    @jax.jit\n    def step(p, x):\n        return p * x\n    for x in data:\n        p = step(p, x)\n    return p\nfor seed in range(3):\n    train(p)\n",
        JAX + "@partial(jax.jit, static_argnums=(0,))\ndef step(model, p, i):\n    return p * i\nfor i in range(100):\n    p = step(model, p, i)\n",
        JAX + "@partial(jax.jit, static_argnames=('train',))\ndef step(p, train):\n    return p\nfor i in range(100):\n    p = step(p, train=True)\n",
        TF + "@tf.function\ndef step(x, i):\n    return x * i\nfor i, x in enumerate(ds):\n    step(x, tf.constant(i))\n",
        TF + "@tf.function\ndef step(x, i):\n    return x * i\nfor i in tf.range(100):\n    step(x, i)\n",
        TF + "@tf.function\ndef step(x, training):\n    return x\nfor i, x in enumerate(ds):\n    step(x, training=True)\n",
        TF + "@tf.function(reduce_retracing=True)\ndef step(x, i):\n    return x * i\nfor i, x in enumerate(ds):\n    step(x, i)\n",
        TF + "@tf.function\ndef step(x):\n    return x\nfor i in range(9):\n    step(batches[i])\n",
        "import torch\nfor x in data:\n    f = torch.jit.script(model)\n",
        TF + "@tf.function\ndef step(x, first):\n    return x\nfor i, x in enumerate(ds):\n    step(x, i == 0)\n    step(x, first=(i == 0 and not y))\n",
    ],
)
def test_neighbours(text: str) -> None:
    assert _found(text) == []
