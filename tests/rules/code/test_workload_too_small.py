# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import found, lint, linted, slugs
from parts import profiles
from parts.dryruns import answer
from parts.dryruns import notes as run_notes
from parts.programs import TRAINED


@pytest.mark.parametrize(
    "text",
    [
        "UserWarning: You are trying to run PPO on the GPU, but it is primarily intended to run on the CPU "
        "when not using a CNN policy (you are using ActorCriticPolicy which should be a MlpPolicy).",
        "NumbaPerformanceWarning: Grid size 1 will likely result in GPU under-utilization due to low "
        "occupancy.",
        "CPU time per epoch: 0.26 s\n"
        "GPU time per epoch: 1.21 s",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "workload-too-small"


@pytest.mark.parametrize(
    "text",
    [
        "CPU time per epoch: 20.26 s\n"
        "GPU time per epoch: 1.21 s",
    ],
)
def test_neighbours(text: str) -> None:
    assert "workload-too-small" not in slugs(text)


def test_a_trace_of_kernels_that_are_shorter_than_their_launch() -> None:
    finding = found("workload-too-small", profiles.text(profiles.kineto(kernel=3, kernels=100)))
    assert finding
    assert (finding.variant, finding.values["small"], finding.values["each"]) == ("trace", "100", "100")


def test_small_kernels_that_keep_the_gpu_busy_are_fine_in_a_trace() -> None:
    assert found("workload-too-small", profiles.text(profiles.kineto(kernel=8, kernels=100, host=5))) is None


def test_one_long_pause_in_a_trace_is_not_a_small_workload() -> None:
    assert found("workload-too-small", profiles.text(profiles.kineto(kernel=9, kernels=100, host=5, pause=900_000))) is None


def test_a_dry_run_with_hardly_any_work_is_a_note() -> None:
    devices = answer()["devices"]
    assert run_notes(devices={**devices, "flop": {"cuda": 3e6}}) == ["workload-too-small"]
    assert run_notes() == []


@pytest.mark.parametrize(
    "text",
    [
        TRAINED + "for x, y in loader:\n    criterion(model(x.to(device)), y.to(device)).backward()\n    optimizer.step()\n",
        "from stable_baselines3 import PPO\nmodel = PPO('MlpPolicy', env, device='cuda')\nmodel.learn(1000)\n",
    ],
)
def test_a_tiny_network_in_the_source_is_a_note(text: str) -> None:
    assert "workload-too-small" in [f.slug for f in lint(text).findings]
    assert linted(text) == []


def test_a_larger_one_is_not() -> None:
    text = TRAINED.replace("d=64", "d=4096")
    text += "for x, y in loader:\n    criterion(model(x.to(device)), y.to(device)).backward()\n    optimizer.step()\n"
    assert "workload-too-small" not in [f.slug for f in lint(text).findings]


EAGER = """\
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
for x, y in data:
    with tf.GradientTape() as tape:
        loss = f(model(x), y)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
"""


def _eager(text: str) -> list[tuple[str, str]]:
    return [(f.variant, f.weight.name) for f in lint(text).findings if f.slug == "workload-too-small"]


def test_an_eager_loop_of_tensorflow_is_a_note() -> None:
    assert _eager(EAGER) == [("eager", "NOTE")]
    assert _eager("import tensorflow as tf\ndef step(x, y):\n    with tf.GradientTape() as t:\n        loss = f(x)\n    opt.apply_gradients(t.gradient(loss, v))\nfor x, y in data:\n    step(x, y)\n") == [("eager", "NOTE")]


@pytest.mark.parametrize(
    "text",
    [
        "import tensorflow as tf\n@tf.function\ndef step(x):\n    with tf.GradientTape() as t:\n        loss = f(x)\n    opt.apply_gradients(t.gradient(loss, v))\nfor x in data:\n    step(x)\n",
        "import tensorflow as tf\nmodel = tf.keras.Sequential()\nmodel.fit(x)\n",
        EAGER.replace("for x, y in data:", "if True:"),
        "import torch\nfor x in data:\n    loss(x).backward()\n",
    ],
)
def test_loops_that_are_graphs(text: str) -> None:
    assert _eager(text) == []
