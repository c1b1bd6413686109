# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import explain, found, lint, linted, slugs
from parts import profiles
from parts.dryruns import answer
from parts.dryruns import notes as run_notes
from parts.programs import TRAINED

from ongpu.model import Certainty


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


JAX = """\
import jax.numpy as jnp
from jax import grad, jit, random

key = random.PRNGKey(0)
w = 0.1 * random.normal(key, (36, 6))
x = random.normal(key, (100, 36))


def loss(w, x):
    return jnp.mean(jnp.tanh(x @ w) ** 2)


@jit
def update(w, x):
    return w - 0.01 * grad(loss)(w, x)


for epoch in range(10):
    w = update(w, x)
"""
TORCH = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2)).to("cuda")
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(64, 4, device="cuda"), torch.zeros(64, dtype=torch.long, device="cuda")
for epoch in range(1000):
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
TOLD = [
    "These are the times on the GPU. The same script without a GPU needs 0.00012 per epoch after the first one.",
    "epoch time: 0.0102\non the CPU it takes 0.003 s",
    "Training is faster on CPU, an epoch takes 12 ms on my RTX 3090",
]


@pytest.mark.parametrize("said", TOLD)
@pytest.mark.parametrize("text", [JAX, TORCH])
def test_small_sizes_and_told_times(said: str, text: str) -> None:
    assert slugs(said, text)[:1] == ["workload-too-small"]
    assert linted(text) == []


def test_large_sizes_or_a_gpu_that_is_faster() -> None:
    assert "workload-too-small" not in slugs(TOLD[0], JAX.replace("(36, 6)", "(4096, 4096)"))
    assert "workload-too-small" not in slugs(TOLD[0], JAX.replace("(36, 6)", "shape"))
    assert "workload-too-small" not in slugs("On CPU an epoch takes 12.0 s, on GPU an epoch takes 1.5 s", TORCH)


KERAS = """\
import numpy as np
import tensorflow as tf
from tensorflow import keras

model = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4)])


def act(observation):
    return int(np.argmax(model.predict(GIVEN)[0]))


for step in range(10000):
    act(np.random.rand(8))
"""


@pytest.mark.parametrize(
    "given",
    [
        "observation[np.newaxis, :]", "observation[None]", "np.expand_dims(observation, axis=0)", "tf.expand_dims(observation, 0)",
        "observation.reshape(1, -1)", "np.reshape(observation, (1, 8))", "np.array([observation])", "x=tf.constant([observation])",
    ],
)  # fmt: skip
def test_predict_for_one_sample_in_a_loop(given: str) -> None:
    assert linted(KERAS.replace("GIVEN", given)) == ["workload-too-small"]


def test_predict_for_a_sample_that_has_a_name() -> None:
    for made in ("np.expand_dims(observation, 0)", "np.random.randn(1, 4)", "np.zeros((1, 4))"):
        assert linted(KERAS.replace("    return int(", f"    state = {made}\n    return int(").replace("GIVEN", "state")) == ["workload-too-small"]
    assert linted(KERAS.replace("    return int(", "    state = np.zeros((64, 4))\n    return int(").replace("GIVEN", "state")) == []


@pytest.mark.parametrize(
    "text",
    [
        KERAS.replace("GIVEN", "observation"),  # who knows
        KERAS.replace("GIVEN", "observation.reshape(-1, 8)"),
        KERAS.replace("GIVEN", "np.array([observation, observation])"),
        KERAS.replace("GIVEN", "observation[None]").replace("for step in range(10000):\n    act", "act"),
        KERAS.replace("model.predict(GIVEN)", "model(observation[None], training=False).numpy()"),
        "from sklearn.svm import SVC\nmodel = SVC()\nfor x in xs:\n    model.predict(x[None])\n",
    ],
)
def test_predict_elsewhere(text: str) -> None:
    assert linted(text) == []


ONE = TORCH[: TORCH.index("opt =")] + """\
state = env.reset()
for step in range(10000):
    with torch.no_grad():
        action = model(torch.as_tensor(state, device="cuda").float().unsqueeze(0)).argmax().item()
    state = env.step(action)
"""


def test_a_small_policy_asked_for_one_action_at_a_time() -> None:
    said = "RTX 3090, training the agent is slow and the GPU is mostly idle"
    assert slugs(said, ONE) == ["workload-too-small"]
    assert linted(ONE) == []
    assert "workload-too-small" not in slugs(said, ONE.replace("nn.Linear(4, 32)", "nn.Linear(4, 9000), nn.Linear(9000, 9000), nn.Linear(9000, 32)"))


def test_predict_in_a_loop_of_samples_that_may_be_single() -> None:
    (finding,) = [f for f in explain("predict is slow", KERAS.replace("GIVEN", "observation")).findings if f.slug == "workload-too-small"]
    assert (finding.variant, finding.certainty) == ("predict", Certainty.POSSIBLE)


def test_a_model_shown_on_the_gpu_that_hardly_uses_it() -> None:
    table = "|   0  GeForce GTX 1070   WDDM  | 00000000:01:00.0  On |                  N/A |\n|  0%   44C    P2    36W / 151W |   {}MiB /  8192MiB |      {}%      Default |\n"
    asked = '$ python -c "print(torch.cuda.is_available(), next(net.parameters()).device)"\nTrue {}\n'
    assert slugs(table.format(1021, 2), asked.format("cuda:0"))[0] == "workload-too-small"
    assert "workload-too-small" not in slugs(table.format(1021, 2), asked.format("cpu"))
    assert "workload-too-small" not in slugs(table.format(1021, 93), asked.format("cuda:0"))
    assert "workload-too-small" not in slugs(table.format(102, 2), asked.format("cuda:0"))


def test_times_of_a_run() -> None:
    gpu = "GPU:              step 1000  10.4 ms/run\n"
    assert slugs(gpu + "CUDA_VISIBLE_DEVICES=-1: step 1000   6.9 ms/run") == ["workload-too-small"]
    assert "workload-too-small" not in slugs(gpu + "CUDA_VISIBLE_DEVICES=-1: step 1000   26.9 ms/run")


def test_times_with_all_their_digits() -> None:
    times = "Avg time per step on CPU: 0.002576863145828247\nAvg time per step on GPU: {}"
    assert slugs(times.format("0.003681471061706543")) == ["workload-too-small"]
    assert slugs(times.format("0.000368147106170654")) == []
