# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import explain, lint, slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 216.00 MiB (GPU 0; 7.92 GiB total capacity; "
        "69.17 MiB already allocated; 24.56 MiB free; 86.00 MiB reserved in total by PyTorch)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacty "
        "of 23.65 GiB of which 5.50 MiB is free. Process 1234 has 20.10 GiB memory in use. Including "
        "non-PyTorch memory, this process has 3.40 GiB memory in use. Of the allocated memory 3.00 GiB is "
        "allocated by PyTorch, and 50.00 MiB is reserved by PyTorch but unallocated.",
        "ValueError: Free memory on device (1.2/79.1 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 71.19 GiB). Decrease GPU memory utilization or reduce GPU memory used by other "
        "processes.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "oom-other-process"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 10.76 GiB total capacity; 8.90 "
        "GiB already allocated; 700.00 MiB free; 9.20 GiB reserved in total by PyTorch)",
    ],
)
def test_neighbours(text: str) -> None:
    assert "oom-other-process" not in slugs(text)


BOTH = """\
import os
import tensorflow as tf
import torch
net = torch.nn.Linear(2, 2).to("cuda")
model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
model.fit(x, y)
"""
JAX = "import os\nimport jax\nimport jax.numpy as jnp\nimport torch\nx = torch.zeros(3).cuda()\ny = jnp.zeros(3)\n"


def _beside(text: str) -> list[tuple[str, str]]:
    return [(f.variant, f.weight.name) for f in lint(text).findings if f.slug == "oom-other-process"]


@pytest.mark.parametrize("text", [BOTH, JAX])
def test_two_frameworks_on_one_card_are_a_note(text: str) -> None:
    assert _beside(text) == [("source", "NOTE")]


@pytest.mark.parametrize(
    "text",
    [
        BOTH.replace("net = ", "for gpu in tf.config.list_physical_devices('GPU'):\n    tf.config.experimental.set_memory_growth(gpu, True)\nnet = "),
        BOTH.replace("net = ", "tf.config.set_visible_devices([], 'GPU')\nnet = "),
        BOTH.replace('.to("cuda")', ""),
        BOTH.replace("model.fit(x, y)\n", "").replace("model = tf.keras.Sequential([tf.keras.layers.Dense(2)])\n", ""),
        JAX.replace("import os\n", "import os\nos.environ['XLA_PYTHON_CLIENT_PREALLOCATE'] = 'false'\n"),
        JAX.replace(".cuda()", ""),
        JAX.replace("import torch\nx = torch.zeros(3).cuda()\n", ""),
    ],
)
def test_one_framework_on_the_card(text: str) -> None:
    assert _beside(text) == []


def test_one_cause_told_once_with_the_figures_of_the_message() -> None:
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.10 GiB is "
        "free. Process 4242 has 12.00 GiB memory in use. Including non-PyTorch memory, this process has 10.50 GiB memory in use. Of the allocated "
        "memory 9.80 GiB is allocated by PyTorch, and 210.00 MiB is reserved by PyTorch but unallocated."
    )
    report = explain(text)
    assert [f.slug for f in (*report.findings, *report.hidden)].count("gpu-busy-other-process") == 0
    title = next(f for f in report.findings if f.slug == "oom-other-process").text("en").title
    assert "12.00 GiB" in title
    assert "only 10.50 GiB" in title


SIBLINGS = """\
import multiprocessing as mp
import jax
import jax.numpy as jnp


def work(seed):
    print(jnp.sum(jax.random.normal(jax.random.PRNGKey(seed), (512, 512))))


if __name__ == "__main__":
    for seed in range(2):
        mp.Process(target=work, args=(seed,)).start()
"""
EXHAUSTED = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8388608 bytes."


@pytest.mark.parametrize("text", [SIBLINGS, SIBLINGS[: SIBLINGS.index("    for seed")] + "    mp.Pool(2).map(work, range(8))\n"])
def test_several_processes_of_one_program_that_use_jax(text: str) -> None:
    assert slugs(EXHAUSTED, text) == ["oom-other-process"]
    assert slugs(text) == []
    for quiet in ("XLA_PYTHON_CLIENT_PREALLOCATE", "CUDA_VISIBLE_DEVICES"):
        assert "oom-other-process" not in slugs(EXHAUSTED, f"import os\nos.environ['{quiet}'] = '0'\n" + text)


def test_one_process_that_uses_jax() -> None:
    assert "oom-other-process" not in slugs(EXHAUSTED, SIBLINGS.replace("    for seed in range(2):\n        mp", "    seed = 0\n    mp"))


def test_no_room_for_a_context() -> None:
    calls = '  File "run.py", line 12, in end\n    torch.cuda.empty_cache()\n  File "/v/lib/python3.9/site-packages/torch/cuda/memory.py", line 125, in empty_cache\n    torch._C._cuda_emptyCache()\n'
    assert slugs(calls + "RuntimeError: CUDA error: out of memory")[0] == "oom-other-process"
    step = '  File "run.py", line 12, in step\n    loss.backward()\n'
    assert slugs(step + "RuntimeError: CUDA error: out of memory")[0] != "oom-other-process"


def test_a_process_whose_own_figure_is_not_known() -> None:
    text = (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity of 21.99 GiB of which 759.38 MiB is free. "
        "Including non-PyTorch memory, this process has {} memory in use. Of the allocated memory {} GiB is allocated by PyTorch, and 102.08 MiB is reserved by PyTorch but unallocated."
    )
    assert slugs(text.format("0 bytes", "20.52"))[0] != "oom-other-process"
    assert slugs(text.format("5.20 GiB", "5.02"))[0] == "oom-other-process"


def test_the_row_of_the_full_card_is_quoted() -> None:
    table = "|   0  GeForce GTX 680     Off  | 0000:03:00.0     N/A |                  N/A |\n| 45%   71C    P0    N/A /  N/A |   3987MiB /  4095MiB |     N/A      Default |\n| Compute processes: |\n|    0     24117  python                                            3970MiB   |"
    first = explain("initCnmem: cnmemInit call failed! Reason=CNMEM_STATUS_OUT_OF_MEMORY. numdev=1", table).findings[0]
    assert first.slug == "oom-other-process"
    assert any("3987MiB" in ref.quote for ref in first.refs)
