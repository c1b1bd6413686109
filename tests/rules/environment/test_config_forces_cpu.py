# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, lint, linted, slugs

from ongpu.model import Severity


@pytest.mark.parametrize(
    "texts",
    [
        ("$ python train.py --device cpu\nRTX 3090, torch.cuda.is_available() True, training is slow",),
        (
            "device: cpu\nbatch: 16\n",
            "GPU is not used although torch.cuda.is_available() is True",
        ),
        (
            "$ ollama show --modelfile x\nPARAMETER num_gpu 0",
            "100% CPU",
        ),
        ("llm = LlamaCpp(model_path=p, n_gpu_layers=0)\nRTX 4090 but GPU is not used",),
        ("reader = easyocr.Reader(['en'], gpu=False)\nUsing CPU. Note: This module is much faster with a GPU.",),
        (
            "GPU=0\nCUDNN=0\nOPENCV=0\n",
            "darknet is slow, only CPU is used",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["config-forces-cpu"]


@pytest.mark.parametrize(
    "texts",
    [
        ("torch.cuda.is_available() returns False\ntorch.__version__ is 1.13.1+cpu, RTX 3060, driver 528.02",),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "config-forces-cpu" not in slugs(*texts)


@pytest.mark.parametrize(
    "text",
    [
        """\
import lightning as L
trainer = L.Trainer(accelerator="cpu", max_epochs=3)
""",
        """\
from transformers import TrainingArguments
args = TrainingArguments("out", no_cuda=True)
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "config-forces-cpu" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        """\
import lightning as L
trainer = L.Trainer(accelerator="auto", max_epochs=3)
""",
        """\
import lightning as L
trainer = L.Trainer(accelerator=args.accelerator)
""",
        """\
from transformers import TrainingArguments
args = TrainingArguments("out")
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2, 4, device=device)).mean().backward()
model.to("cpu")
torch.save(model.state_dict(), "a.pt")
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "config-forces-cpu" not in linted(text)


@pytest.mark.parametrize(
    "log",
    [
        "ggml_init_cublas: found 1 CUDA devices:\n  Device 0: NVIDIA GeForce RTX 3090\nllama_model_load_internal: offloaded 0/35 layers to GPU",
        "ggml_cuda_init: found 1 CUDA devices:\n  Device 0: NVIDIA H800, compute capability 9.0, VMM: yes\nllm_load_tensors: offloaded 0/33 layers to GPU",
        "make_cpu_buft_list: disabling extra buffer types (i.e. repacking) since a GPU device is available\nload_tensors: offloaded 0/29 layers to GPU",
    ],
)
def test_llama_cpp_that_offloads_nothing_is_told_every_name_of_the_setting(log: str) -> None:
    first = explain(log).findings[0]
    assert (first.slug, first.variant) == ("config-forces-cpu", "layers")
    assert all(word in first.text("en").why for word in ("n_gpu_layers", "gpu_layers", "num_gpu", "--n-gpu-layers"))


@pytest.mark.parametrize(
    "log",
    [
        "warning: not compiled with GPU offload support, --gpu-layers option will be ignored\nllm_load_tensors: offloaded 0/33 layers to GPU",
        "ggml_cuda_init: found 1 CUDA devices:\nllm_load_tensors: offloaded 33/33 layers to GPU",
        'ggml_cuda_init: found 1 CUDA devices:\nload_tensors: offloaded 0/33 layers to GPU\ntime=2025-01-01 level=INFO source=server.go:105 msg="offload to cpu" layers.requested=-1',
    ],
)
def test_other_reasons_for_no_layers(log: str) -> None:
    assert "config-forces-cpu" not in slugs(log)


def test_the_name_of_a_cdi_device_is_no_setting() -> None:
    assert "config-forces-cpu" not in slugs("Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=0")


KERAS = "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('adam', 'mse')\n"
STEP = "def train_step(p, x):\n    g = jax.grad(loss)(p, x)\n    return p - g\nfor x in data:\n    p = train_step(p, x)\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (KERAS + "with tf.device('/CPU:0'):\n    model.fit(x, y)\n", 4),
        (KERAS + "with tf.device('cpu'):\n    for x, y in ds:\n        with tf.GradientTape() as tape:\n            loss = f(model(x), y)\n        opt.apply_gradients(zip(tape.gradient(loss, v), v))\n", 4),
        (KERAS + "def train():\n    model.fit(x, y)\nwith tf.device('/device:CPU:0'):\n    train()\n", 6),
        ("import tensorflow as tf\ntf.config.set_visible_devices([], 'GPU')\n" + KERAS + "model.fit(x, y)\n", 2),
        ("import tensorflow as tf\ntf.config.experimental.set_visible_devices(devices=[], device_type='GPU')\n" + KERAS + "model.train_on_batch(x, y)\n", 2),
        ("import jax\njax.config.update('jax_platform_name', 'cpu')\n" + STEP, 2),
        ("import jax\njax.config.update('jax_platforms', 'cpu')\n" + STEP, 2),
        ("import os\nos.environ['JAX_PLATFORMS'] = 'cpu'\nimport jax\n" + STEP, 2),
    ],
)
def test_frameworks_told_to_use_the_cpu(text: str, line: int) -> None:
    report = lint(text)
    assert [(f.slug, f.variant, f.refs[0].line) for f in report.findings if f.weight > Severity.NOTE] == [("config-forces-cpu", "framework", line)]


@pytest.mark.parametrize(
    "text",
    [
        KERAS + "with tf.device('/CPU:0'):\n    ds = tf.data.Dataset.from_tensor_slices(x).batch(4)\nmodel.fit(ds)\n",
        KERAS + "with tf.device('/CPU:0'):\n    model.fit(x, y)\nwith tf.device('/GPU:0'):\n    model.fit(x, y)\n",
        KERAS + "with tf.device(args.device):\n    model.fit(x, y)\n",
        KERAS + "with tf.device('/cpu:0'):\n    for i in range(2):\n        with tf.device(place(i)):\n            grads = opt.minimize(loss)\n    opt.apply_gradients(grads)\n",
        "import jax\njax.config.update('jax_platform_name', 'cpu')  # small: faster on the CPU\n" + STEP,
        KERAS + "with tf.device('/GPU:0' if gpus else '/CPU:0'):\n    model.fit(x, y)\n",
        "import jax\nimport tensorflow as tf\ntf.config.set_visible_devices([], 'GPU')\n" + STEP,
        "import torch\nimport tensorflow as tf\ntf.config.set_visible_devices([], 'GPU')\nmodel.fit(x)\n",
        "import tensorflow as tf\ngpus = tf.config.list_physical_devices('GPU')\ntf.config.set_visible_devices(gpus[0], 'GPU')\n" + KERAS + "model.fit(x)\n",
        "import tensorflow as tf\nif args.cpu:\n    tf.config.set_visible_devices([], 'GPU')\n" + KERAS + "model.fit(x)\n",
        "import tensorflow as tf\ntf.config.set_visible_devices([], 'GPU')\nds = tf.data.TFRecordDataset('x')\n",
        "import jax\njax.config.update('jax_enable_x64', True)\n" + STEP,
        "import jax\nif args.cpu:\n    jax.config.update('jax_platform_name', 'cpu')\n" + STEP,
        "import os\nos.environ['JAX_PLATFORMS'] = 'cuda'\nimport jax\n" + STEP,
        "import jax\njax.config.update('jax_platform_name', 'cpu')\nprint(jax.numpy.ones(3))\n",
    ],
)
def test_frameworks_that_may_use_the_gpu(text: str) -> None:
    assert "config-forces-cpu" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        """\
import torch
import lightning as L
from mod import Lit, loader
trainer = L.Trainer(accelerator='cpu', max_epochs=3)
trainer.fit(Lit(), loader)
""",
        """\
from transformers import Trainer, TrainingArguments
args = TrainingArguments('out', no_cuda=True)
Trainer(model, args).train()
""",
        """\
from transformers import Trainer, TrainingArguments
args = TrainingArguments(output_dir='out', use_cpu=True, fp16=False)
Trainer(model, args).train()
""",
        """\
import torch
from accelerate import Accelerator
acc = Accelerator(cpu=True)
m, o = acc.prepare(model, opt)
""",
        """\
import pytorch_lightning as pl
kw = dict(gpus=0, max_epochs=3)
pl.Trainer(**kw).fit(m)
""",
        """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from tqdm import tqdm
from data import dataset, val_set

device = torch.device("cpu")  # torch.device("cuda")


class Net(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.fc = nn.Linear(d, 10)

    def forward(self, x):
        return self.fc(x)


model = Net().to(device)
print(torch.cuda.is_available())
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(dataset, 4, num_workers=2):
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from tqdm import tqdm
from data import dataset, val_set

use_cuda = False
device = torch.device("cuda" if use_cuda else "cpu")  # torch.device("cuda")


class Net(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.fc = nn.Linear(d, 10)

    def forward(self, x):
        return self.fc(x)


model = Net().to(device)

opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(dataset, 4, num_workers=2):
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from tqdm import tqdm
from data import dataset, val_set

device = torch.device("cpu")  # torch.device("cuda")


class Net(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.fc = nn.Linear(d, 10)

    def forward(self, x):
        return self.fc(x)


print('GPU', torch.cuda.get_device_name(0))
model = Net().to(device)

opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(dataset, 4, num_workers=2):
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "config-forces-cpu" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        "import requests\nrequests.post(url, json={'model': 'phi3', 'options': {'num_gpu': 0}})\n",
        "from llama_cpp import Llama\nllm = Llama('m.gguf', n_gpu_layers=0)\n",
    ],
)
def test_no_layers_on_the_gpu(text: str) -> None:
    assert linted(text) == ["config-forces-cpu"]


@pytest.mark.parametrize(
    "text",
    [
        "from llama_cpp import Llama\nllm = Llama('m.gguf', n_gpu_layers=-1)\n",
        "import ray\n@ray.remote\ndef f():\n    pass\nf.options(num_gpu=0).remote()\n",
        "import torch\nuse_cuda = torch.cuda.is_available()\ndevice = 'cuda' if use_cuda else 'cpu'\nnet = torch.nn.Linear(2, 2).to(device)\n",
        "import torch\nnet = torch.nn.Linear(2, 2)\nnet(torch.zeros(1, 2)).sum().backward()\n",
    ],
)
def test_settings_that_do_not_force_it(text: str) -> None:
    assert "config-forces-cpu" not in linted(text)
