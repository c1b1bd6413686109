# ruff: noqa: E501  programs stand in one piece
from typing import Any

import pytest
from asking import explain, explain_files, found, lint, slugs
from parts import profiles
from parts.trends import gpu, host, judged, process, told, worker

from ongpu.model import Certainty, Severity, Verdict


@pytest.mark.parametrize(
    "text",
    [
        "Epoch: [0][10/5005]\tTime 22.424 (7.498)\tData 22.372 (7.070)\tLoss 6.9065 (6.9074)",
        "2022-01-01 - mmdet - INFO - Epoch [1][50/7330] lr: 1e-03, eta: 1 day, time: 1.234, data_time: "
        "0.987, memory: 5432, loss: 2.1",
        "UserWarning: This DataLoader will create 16 worker processes in total. Our suggested max number of "
        "worker in current system is 2, which is smaller than what this DataLoader is going to create. "
        "Please be aware that excessive worker creation might get DataLoader running slow or even freeze",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "input-pipeline-bound"


@pytest.mark.parametrize(
    "text",
    [
        "Epoch: [0][10/5005]\tTime 0.424 (0.498)\tData 0.002 (0.010)\tLoss 6.9065 (6.9074)",
    ],
)
def test_neighbours(text: str) -> None:
    assert "input-pipeline-bound" not in slugs(text)


def test_a_trace_whose_gpu_waits_for_the_loader() -> None:
    finding = found("input-pipeline-bound", profiles.text(profiles.kineto(load=20_000)))
    assert finding
    assert (finding.variant, finding.certainty, finding.weight) == ("trace", Certainty.CERTAIN, Severity.WARNING)
    assert finding.values["share"] == "73"
    assert 72 <= float(str(finding.values["most"])) <= 74


def test_only_the_first_batch_is_slow_in_a_trace() -> None:
    trace = profiles.kineto(steps=8, load=2000)
    waits = [event for event in trace["traceEvents"] if "DataLoader" in event["name"]]
    for event in waits[1:]:
        trace["traceEvents"].remove(event)
    waits[0]["ts"], waits[0]["dur"] = waits[0]["ts"] - 30_000, 32_000.0
    finding = found("input-pipeline-bound", profiles.text(trace))
    assert finding is None or finding.weight is Severity.NOTE


def test_copies_from_pageable_memory_in_a_trace() -> None:
    trace = profiles.kineto(names=("Memcpy HtoD (Pageable -> Device)", profiles.HMMA, profiles.HMMA))
    for event in trace["traceEvents"]:
        if event["name"].startswith("Memcpy"):
            event["cat"] = "gpu_memcpy"
    finding = found("input-pipeline-bound", profiles.text(trace))
    assert finding
    assert (finding.variant, finding.values["share"]) == ("pageable", "33")


def test_a_trace_whose_loading_is_hidden_is_clear() -> None:
    trace = profiles.text(profiles.kineto(steps=30, load=2000))
    assert found("input-pipeline-bound", trace) is None
    assert explain_files(trace).verdict is Verdict.CLEAR


DATA = """\
import numpy as np, pandas as pd, pickle
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __init__(self, path, files):
        self.path, self.files = path, files
    def __len__(self):
        return 5
    def __getitem__(self, i):
        {}
        return torch.tensor(row), 0
"""
LOADER = """\
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=4, num_workers=4)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    nn.functional.cross_entropy(model(x), y).backward()
    opt.step()
"""
TORCH = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"


def _found(text: str) -> list[tuple[str, str]]:
    return [(f.variant, f.weight.name) for f in lint(text).findings if f.slug == "input-pipeline-bound"]


@pytest.mark.parametrize(
    "line",
    [
        "row = pd.read_csv(self.path).iloc[i]",
        "table = np.load(self.path)\n        row = table[i]",
        "with open(self.path, 'rb') as f:\n            row = pickle.load(f)[i]",
        "row = torch.load('all.pt')[i]",
        "path = self.path + '.parquet'\n        row = pd.read_parquet(path).iloc[i]",
    ],
)
def test_a_file_that_is_read_for_every_sample(line: str) -> None:
    assert _found(DATA.format(line)) == [("again", "WARNING")]


@pytest.mark.parametrize(
    "line",
    [
        "row = np.load(self.files[i])",
        "path = self.files[i]\n        row = torch.load(path)",
        "name = f'{self.path}/{i}.npy'\n        full = name.lower()\n        row = np.load(full)",
        "row = np.load(self.path, mmap_mode='r')[i]",
        "with open(self.files[i], 'rb') as f:\n            row = pickle.load(f)",
        "if self.table is None:\n            self.table = pd.read_csv(self.path)\n        row = self.table.iloc[i]",
        "row = self.table[i]",
        "for path in self.files[i]:\n            row = np.load(path)",
    ],
)
def test_files_of_their_own(line: str) -> None:
    assert _found(DATA.format(line)) == []


def test_read_once() -> None:
    assert _found(DATA.format("row = self.table.iloc[i]").replace("path, files\n", "path, files\n        self.table = pd.read_csv(path)\n")) == []


def test_pageable_batches_are_a_note_with_an_edit() -> None:
    report = lint(TORCH + LOADER)
    (finding,) = [f for f in report.findings if f.slug == "input-pipeline-bound"]
    assert (finding.variant, finding.weight.name) == ("unpinned", "NOTE")
    assert [(e.line, e.text) for e in finding.edits] == [(7, ", pin_memory=True"), (9, ", non_blocking=True"), (9, ", non_blocking=True")]


@pytest.mark.parametrize(
    "text",
    [
        LOADER.replace("num_workers=4", "num_workers=4, pin_memory=True"),
        LOADER.replace("num_workers=4", "num_workers=4, pin_memory=args.pin"),
        LOADER.replace(", num_workers=4", ""),
        LOADER.replace("to(device), y.to(device)", "to(device, non_blocking=True), y.to(device, non_blocking=True)"),
        LOADER.replace('"cuda" if torch.cuda.is_available() else "cpu"', '"cpu"'),
        LOADER.replace("num_workers=4", "num_workers=4, **options"),
        LOADER.replace("    nn.functional.cross_entropy(model(x), y).backward()\n    opt.step()\n", ""),
    ],
)
def test_copies_that_are_fine(text: str) -> None:
    assert _found(TORCH + text) == []


FLOW = """\
import tensorflow as tf
def load(path):
    return tf.io.decode_jpeg(tf.io.read_file(path))
model = tf.keras.applications.ResNet50()
model.compile("adam", "mse")
data = tf.data.Dataset.from_tensor_slices(files).map(load).batch(32)
model.fit(data)
"""


@pytest.mark.parametrize(
    "text",
    [
        FLOW,
        FLOW.replace("map(load)", "map(lambda p: tf.io.decode_png(tf.io.read_file(p)))"),
        FLOW.replace("map(load)", "map(lambda p: tf.numpy_function(read, [p], tf.float32))"),
    ],
)
def test_tf_data_that_decodes_one_by_one(text: str) -> None:
    assert _found(text) == [("tf-data", "WARNING")]


@pytest.mark.parametrize(
    "text",
    [
        FLOW.replace("map(load)", "map(load, num_parallel_calls=tf.data.AUTOTUNE)"),
        FLOW.replace(".batch(32)", ".batch(32).prefetch(2)"),
        FLOW.replace("map(load)", "map(lambda x: x / 255)"),
        FLOW.replace("model.fit(data)\n", ""),
        FLOW.replace(".map(load)", ""),
    ],
)
def test_tf_data_that_is_fine(text: str) -> None:
    assert _found(text) == []


HEAVY = "import cv2\n" + DATA.format("row = cv2.imread(self.files[i])") + LOADER.replace("(data,", "(Rows(p, f),").replace("num_workers=4", "num_workers=2, pin_memory=True")


def test_an_idle_gpu_beside_costly_samples() -> None:
    assert _found(HEAVY) == []
    told = "GPU utilization drops to 0 % again and again while training\nGPU-Util 7%"
    assert slugs(HEAVY, told)[0] == "input-pipeline-bound"
    assert "input-pipeline-bound" not in slugs(HEAVY.replace("cv2.imread(self.files[i])", "self.rows[i]"), "Training went well")


@pytest.mark.parametrize(
    ("rows", "machine", "expected"),
    [
        ([gpu(util=30), process(cpu=0.2, workers=[worker(0.97)] * 4)], None, "/live-workers"),
        ([gpu(util=[100, 0, 0]), process(cpu=0.2, workers=[worker(0.9)] * 12)], None, "/live-workers"),
        ([gpu(util=78), process(cpu=0.9, workers=[worker(0.97)] * 4)], None, "/live-workers"),
        ([gpu(util=30, seconds=6), process(cpu=0.2, workers=[worker(0.97)] * 4, looks=2)], None, "/live-workers?"),
        ([gpu(util=30), process(cpu=0.2, workers=[worker(0.1)] * 20)], host(2, busy=2), "/live-starved"),
        ([gpu(util=30), process(cpu=1.0, rchar=20)], None, "/live-main"),
        ([gpu(util=30), process(cpu=15, main=0.6, read=20)], host(16, busy=15), "/live-threads"),
    ],
)
def test_a_running_program_is_judged_by_its_workers(rows: list[dict[str, Any]], machine: dict[str, Any] | None, expected: str) -> None:
    assert told(*rows, machine=machine) == "input-pipeline-bound" + expected


@pytest.mark.parametrize(
    ("rows", "machine"),
    [
        ([gpu(util=95), process(cpu=0.2, workers=[worker(0.97)] * 4)], None),
        ([gpu(util=30), process(cpu=0.2, workers=[worker(0.5, "S")] * 4)], None),
        ([gpu(util=30), process(cpu=0.2, workers=[worker(0.97)] * 2 + [worker(0.3, "S")] * 6)], None),
        ([gpu(util=30), process(cpu=0.2, workers=[worker(0.1, "D", read=9)] * 4)], None),
        ([gpu(util=30), process(cpu=1.0, rchar=0.5)], None),
        ([gpu(util=30), process(cpu=7, main=0.6, read=20)], host(16, busy=8)),
        ([gpu(util=30), process(cpu=15, main=0.6)], host(16, busy=15)),
        ([gpu(util=30, temp=99, reasons=0x40)], None),
        ([gpu(util=None, mig=True), process(cpu=0.2, workers=[worker(0.97)] * 4)], None),
    ],
)
def test_a_running_program_that_waits_for_something_else(rows: list[dict[str, Any]], machine: dict[str, Any] | None) -> None:
    assert "input-pipeline-bound" not in told(*rows, machine=machine)


def test_how_sure_it_is_of_a_running_program() -> None:
    sharp = judged(gpu(util=20), process(cpu=0.1, workers=[worker(0.99)] * 4))
    moderate = judged(gpu(util=70), process(cpu=0.1, workers=[worker(0.99)] * 4))
    assert sharp
    assert moderate
    assert (sharp.certainty, moderate.certainty) == (Certainty.CERTAIN, Certainty.LIKELY)
    assert "the 4 worker processes of python train.py --epochs 90 (pid 4242) are full (99 % of a core each)" in sharp.text("en").title


GAN = """\
import torch
from torch import nn
from torch.nn import functional as F

generator = nn.Linear(128, 512).to("cuda")
critic = nn.Linear(512, 1).to("cuda")
g_opt, d_opt = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
for i in range(300000):
    real = torch.rand(32, 512, device="cuda")
    fake = generator(torch.randn(32, 128, device="cuda")).detach()
    d_loss = F.softplus(-critic(real)).mean() + F.softplus(critic(fake)).mean()
    d_opt.zero_grad()
    d_loss.backward()
    told_d = d_loss.item()
    d_opt.step()
    g_loss = F.softplus(-critic(generator(torch.randn(32, 128, device="cuda")))).mean()
    g_opt.zero_grad()
    g_loss.backward()
    told_g = g_loss.item()
    g_opt.step()
"""


def test_a_program_that_makes_its_inputs_on_the_gpu_waits_for_no_data() -> None:
    said = "Training is slower than I expected. GPU-Util in nvidia-smi jumps up and down the whole time; one CPU core is at 100 %."
    assert slugs(said)[0] == "input-pipeline-bound"
    assert slugs(said, GAN) == ["sync-in-hot-loop"]
    assert "input-pipeline-bound" in slugs(said, GAN.replace('torch.rand(32, 512, device="cuda")', 'torch.from_numpy(read(i)).to("cuda")'))


@pytest.mark.parametrize(
    "denied",
    [
        "GPU-Util is 99-100 %, data loading is not the problem (data time 0.002 s)",
        "The dataloader isn't the bottleneck, it takes 0.5 s per epoch. Training is slow",
        "training is slow, and it is not data bound: loading takes 2 s of 600 s. GPU usage jumps",
        "data time: 0.001 s, batch time: 0.8 s, slow on a V100",
        "数据加载不是瓶颈，GPU 利用率 90%，训练太慢",
    ],
)
def test_loading_that_is_told_not_to_be_the_cause(denied: str) -> None:
    assert "input-pipeline-bound" not in slugs(denied)


def test_loading_that_is_told_to_be_the_cause() -> None:
    assert slugs("Data loading is the bottleneck, it takes 0.5 s of each step. Training is slow, GPU-Util 10-20 %")[0] == "input-pipeline-bound"


GENERATOR = """\
import pandas as pd
import tensorflow as tf


def samples():
    for name in names:
        yield pd.read_pickle(name).to_numpy(), 0


data = tf.data.Dataset.from_generator(samples, output_types=(tf.float32, tf.int32)).batch(32).prefetch(2)
model = tf.keras.Sequential([tf.keras.layers.Dense(512), tf.keras.layers.Dense(56)])
model.compile(optimizer="adam", loss="mse")
model.fit(data)
"""


def test_a_python_generator_that_feeds_tensorflow() -> None:
    said = "GPU util is very low, about 15 %"
    assert "generator" in [f.variant for f in explain(said, GENERATOR).findings if f.slug == "input-pipeline-bound"]
    assert slugs(GENERATOR) == []
    other = GENERATOR.replace("from_generator(samples, output_types=(tf.float32, tf.int32))", "from_tensor_slices(table)")
    assert "generator" not in [f.variant for f in explain(said, other).findings]


USED = "$ nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv -l 2\nutilization.gpu [%], memory.used [MiB]\n{}"
DISK = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           11.42    0.00    3.10   {}    0.00   47.21\nDevice            r/s     rMB/s   r_await   %util\nsda            142.00      9.41     96.30   {}\n"
LOW, HIGH = "0 %, 9834 MiB\n97 %, 9834 MiB\n0 %, 9834 MiB\n0 %, 9834 MiB\n", "96 %, 9834 MiB\n97 %, 9834 MiB\n0 %, 9834 MiB\n95 %, 9834 MiB\n"


@pytest.mark.parametrize(
    ("used", "wait", "util", "found"), [(LOW, "38.27", "99.60", True), (LOW, "0.10", "99.60", True), (LOW, "0.10", "3.10", False), (HIGH, "38.27", "99.60", False)]
)
def test_a_disk_that_is_full_of_work(used: str, wait: str, util: str, found: bool) -> None:
    assert ("input-pipeline-bound" in slugs(USED.format(used), DISK.format(wait, util))) == found


@pytest.mark.parametrize(("seconds", "found"), [("210.500", True), ("12.500", False)])
def test_rows_of_cprofile(seconds: str, found: bool) -> None:
    text = "   998234 function calls (990000 primitive calls) in 300.000 seconds\n     7812    0.120    0.000  {}    0.027 /v/torch/utils/data/dataloader.py:652(_next_data)\n"
    assert ("input-pipeline-bound" in slugs(text.format(seconds))) == found


def test_rows_of_line_profiler() -> None:
    row = "    41      1201   91220115.0  75953.5     {}      for x, y in tqdm(train_loader):\n"
    assert slugs(row.format("81.2"))[0] == "input-pipeline-bound"
    assert not slugs(row.format(" 8.2"))


def test_a_log_in_json() -> None:
    row = '{{"mode": "train", "iter": {}, "data_time": {}, "loss": 1.2, "time": 0.97546}}\n'
    assert slugs("".join(row.format(n, 0.79335) for n in (100, 200)))[0] == "input-pipeline-bound"
    assert not slugs("".join(row.format(n, 0.00335) for n in (100, 200)))
