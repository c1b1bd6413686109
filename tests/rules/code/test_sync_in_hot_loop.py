# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import found, lint, linted, slugs
from parts import profiles
from parts.dryruns import CALL, STEP
from parts.dryruns import notes as run_notes
from parts.dryruns import slugs as run_slugs
from parts.programs import MODEL, START, TRAINED

from ongpu.model import Finding, Severity


@pytest.mark.parametrize(
    "text",
    [
        "UserWarning: called a synchronizing CUDA operation (Triggered internally at "
        "../c10/cuda/CUDAFunctions.cpp:149.)",
        "WARNING:tensorflow:Callback method `on_train_batch_end` is slow compared to the batch time (batch "
        "time: 0.0061s vs `on_train_batch_end` time: 0.1270s). Check your callbacks.",
        "aten::item         12.3%      1.2s   55.10%",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "sync-in-hot-loop"


def test_a_trace_that_runs_dry_after_each_wait() -> None:
    finding = found("sync-in-hot-loop", profiles.text(profiles.kineto(sync=1, kernel=30, stacks=True)))
    assert finding
    assert (finding.values["operator"], finding.values["where"], finding.values["each"]) == ("aten::item", "train.py(45): step", "60")


def test_one_wait_in_a_step_is_fine_in_a_trace() -> None:
    assert found("sync-in-hot-loop", profiles.text(profiles.kineto(sync=60))) is None


class TestDryRun:
    def test_many_waits_a_step_are_a_warning(self) -> None:
        assert run_slugs(syncs=[{"place": CALL, "kind": "item", "count": 90}]) == ["sync-in-hot-loop"]

    def test_reading_the_loss_is_a_note(self) -> None:
        syncs = [{"place": STEP, "kind": "item", "count": 3}]
        assert run_slugs(syncs=syncs) == []
        assert run_notes(syncs=syncs) == ["sync-in-hot-loop"]

    def test_now_and_then_is_nothing(self) -> None:
        assert run_notes(syncs=[{"place": STEP, "kind": "item", "count": 1}]) == []

    def test_the_waits_of_a_librarys_loop_are_not_the_users(self) -> None:
        windows = [{"backwards": 1, "step_place": CALL, "backward_place": CALL}]
        assert run_slugs(syncs=[{"place": CALL, "kind": "cpu", "count": 90}], accumulation={"windows": windows}) == []


@pytest.mark.parametrize(
    "text",
    [
        START + MODEL + """\
for step in range(99):
    loss = model(torch.ones(8, 4, device=device)).mean()
    loss.backward()
    opt.step()
    history.append(loss.item())
    if step % 10 == 0:
        print(history[-1])
""",
        START + MODEL + """\
for step in range(99):
    loss = model(torch.ones(8, 4, device=device)).mean()
    loss.backward()
    opt.step()
    torch.cuda.empty_cache()
""",
        START + MODEL + """\
for step in range(99):
    out = model(torch.ones(8, 4, device=device))
    loss = out.mean()
    loss.backward()
    opt.step()
    print(out.max(), out.min().item(), float(loss), out.std().cpu())
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "sync-in-hot-loop" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        START + MODEL + """\
for step in range(99):
    loss = model(torch.ones(8, 4, device=device)).mean()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(loss.item())
""",
        START + MODEL + """\
total = 0.0
for step in range(99):
    loss = model(torch.ones(8, 4, device=device)).mean()
    loss.backward()
    opt.step()
    total += loss.item()
""",
        START + MODEL + """\
import time
for step in range(99):
    start = time.time()
    model(torch.ones(8, 4, device=device)).mean().backward()
    opt.step()
    torch.cuda.synchronize()
    print(time.time() - start)
""",
        START + """\
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(99):
    loss = model(torch.ones(8, 4)).mean()
    loss.backward()
    opt.step()
    print(loss.item(), loss.max(), loss.min(), loss.std())
    if step % 10 == 0:
        print("so far")
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "sync-in-hot-loop" not in linted(text)


def test_waits_for_a_shape_are_a_note() -> None:
    assert run_slugs(syncs=[{"place": CALL, "kind": "mask", "count": 90}]) == []


EMPTIES = """\
import gc, time
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x in data:
    start = time.time()
    model(x.cuda()).mean().backward()
    opt.step()
    torch.cuda.empty_cache()
    gc.collect()
    opt.zero_grad()  # keep
"""


def _sync(text: str) -> list[Finding]:
    return [f for f in lint(text).findings if f.slug == "sync-in-hot-loop"]


def test_the_cache_emptied_at_each_step_is_taken_out() -> None:
    (finding,) = _sync(EMPTIES)
    assert (finding.variant, finding.weight) == ("empty", Severity.WARNING)
    lines = EMPTIES.split("\n")
    kept = EMPTIES
    for edit in sorted(finding.edits, key=lambda e: -e.line):
        start = sum(len(x) + 1 for x in lines[: edit.line - 1]) + edit.column
        end = sum(len(x) + 1 for x in lines[: edit.end_line - 1]) + edit.end_column
        kept = kept[:start] + edit.text + kept[end:]
    assert kept == EMPTIES.replace("    torch.cuda.empty_cache()\n    gc.collect()\n", "")
    assert _sync(kept) == []


@pytest.mark.parametrize(
    "text",
    [
        EMPTIES.replace("    torch.cuda.empty_cache()\n    gc.collect()\n", "    if step % 100 == 0:\n        torch.cuda.empty_cache()\n"),
        EMPTIES.replace("    torch.cuda.empty_cache()\n    gc.collect()\n", "") + "torch.cuda.empty_cache()\ngc.collect()\n",
        EMPTIES.replace("    model(x.cuda()).mean().backward()\n", "    try:\n        model(x.cuda()).mean().backward()\n    except torch.cuda.OutOfMemoryError:\n        torch.cuda.empty_cache()\n").replace("    torch.cuda.empty_cache()\n    gc.collect()\n", ""),
    ],
)
def test_the_cache_emptied_seldom(text: str) -> None:
    assert _sync(text) == []


TF = """\
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
opt = tf.keras.optimizers.Adam(1e-3)

@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss

for i, (x, y) in enumerate(ds):
    loss = step(x, y)
    losses.append(loss.numpy())
    if i % 100 == 0:
        print(losses[-1])
"""
JAX = """\
import jax
import numpy as np
from functools import partial

@partial(jax.jit, donate_argnums=0)
def train_step(state, batch):
    loss, grads = jax.value_and_grad(lambda p: (p * batch).mean())(state.params)
    return state.apply_gradients(grads=grads), {"loss": loss}

for epoch in range(3):
    for batch in loader:
        state, metrics = train_step(state, batch)
        history.append(float(metrics["loss"]))
    print(epoch)
"""


@pytest.mark.parametrize(
    ("text", "line", "heavy"),
    [
        (TF, 15, True),
        (TF.replace("    if i % 100 == 0:\n        print(losses[-1])\n", ""), 15, False),
        (TF.replace("@tf.function\n", "").replace("loss.numpy()", "float(loss)"), 14, True),
        (JAX, 13, False),
        (JAX.replace("float(metrics[\"loss\"])", "jax.device_get(metrics)"), 13, True),
        (JAX.replace("float(metrics[\"loss\"])", "np.asarray(metrics['loss'])").replace("    print(epoch)", "        if step % 10 == 0:\n            print(step)"), 13, True),
        (JAX.replace("        history.append(float(metrics[\"loss\"]))", "        metrics['loss'].block_until_ready()\n        jax.device_get(metrics)"), 13, True),
    ],
)
def test_results_brought_to_the_host_by_tensorflow_and_jax(text: str, line: int, heavy: bool) -> None:
    (finding,) = _sync(text)
    assert (finding.variant, finding.refs[0].line, finding.weight > Severity.NOTE) == ("host", line, heavy)


@pytest.mark.parametrize(
    "text",
    [
        TF.replace("    losses.append(loss.numpy())\n", "").replace("losses[-1]", "loss.numpy()"),
        TF.replace("losses.append(loss.numpy())", "mean.update_state(loss)"),
        TF.replace("loss.numpy()", "y.numpy()"),  # labels lie on the host
        JAX.replace("float(metrics[\"loss\"])", "metrics").replace("print(epoch)", "print(jax.device_get(history))"),
        JAX.replace("float(metrics[\"loss\"])", "np.asarray(batch)"),
        JAX.replace("    for batch in loader:\n        state, metrics = train_step(state, batch)\n        history.append(float(metrics[\"loss\"]))\n", "    pass\n"),
        JAX.replace("        history.append(float(metrics[\"loss\"]))", "        if step % 10 == 0:\n            print(float(metrics['loss']))"),
        "import jax, time\nf = jax.jit(lambda x: x + 1)\nfor i in range(9):\n    t = time.time()\n    y = f(x)\n    y.block_until_ready()\n    print(time.time() - t)\n",
    ],
)
def test_results_that_stay(text: str) -> None:
    assert _sync(text) == []


@pytest.mark.parametrize(
    "text",
    [
        TRAINED
        + """
for x, y in loader:
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
""",
        TRAINED
        + """
for i, (x, y) in enumerate(loader):
    out = model(x.to(device))
    loss = criterion(out, y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch.cuda.empty_cache()
""",
        TRAINED
        + """
for x, y in loader:
    y = y.to(device)
    out = model(x.to(device))
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    acc = (out.argmax(1) == y).float().mean().item()
    norm = sum(p.grad.norm().item() for p in model.parameters())
    print(loss.item(), acc, norm)
    top = out.max().item()
    lowest = out.min().item()
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "sync-in-hot-loop" in linted(text)


def test_a_complaint_makes_a_warning_of_one_read() -> None:
    text = EMPTIES.replace("    torch.cuda.empty_cache()\n    gc.collect()\n", "    history.append(loss.item())\n").replace("    model(x.cuda()).mean().backward()", "    loss = model(x.cuda()).mean()\n    loss.backward()")
    assert "sync-in-hot-loop" not in linted(text)
    assert "sync-in-hot-loop" in slugs(text, "Why is my training so slow? GPU utilization is only 30 %.")


WAITING = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x in data:
    model(x.cuda()).mean().backward()
    opt.step()
    torch.cuda.synchronize()
"""


def test_synchronize_at_each_step() -> None:
    assert [(f.variant, f.weight) for f in _sync(WAITING)] == [("source", Severity.WARNING)]
    assert _sync(WAITING + "    perf_meter.update(32)\n") == []
    assert _sync(WAITING.replace("    opt.step()\n", "")) == []  # a test of gradients


ROWS = """\
         998234 function calls in 300.000 seconds

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
    23436   {:.3f}    0.003   61.872    0.003 {{method 'item' of '{}' objects}}
     7812  118.204    0.015  118.204    0.015 {{method 'run_backward' of 'torch._C._EngineBase' objects}}
"""


@pytest.mark.parametrize(("seconds", "kind", "found"), [(61.872, "torch._C._TensorBase", True), (9.1, "torch._C.TensorBase", False), (61.872, "numpy.ndarray", False)])
def test_rows_of_cprofile(seconds: float, kind: str, found: bool) -> None:
    assert ("sync-in-hot-loop" in slugs(ROWS.format(seconds, kind))) == found


@pytest.mark.parametrize(("line", "found"), [("running += loss.item()", True), ("loss.backward()", False)])
def test_rows_of_line_profiler(line: str, found: bool) -> None:
    assert ("sync-in-hot-loop" in slugs(f"    30       100    2345000.0  23450.0     45.6          {line}\n")) == found


BAR = TRAINED + """
bar = tqdm(loader)
for step, (x, y) in enumerate(bar):
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    bar.set_description(f"loss={loss.item():.3f}")
"""


def test_a_bar_that_reads_what_is_told_every_few_steps_anyway() -> None:
    assert linted(BAR) == []
    assert linted(BAR + "    if step % 10 == 0:\n        print('loss', loss.item())\n") == ["sync-in-hot-loop"]
