import pytest
from asking import linted, slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "$ echo $CUDA_VISIBLE_DEVICES\n-1",
            "torch.cuda.is_available() False",
        ),
        ("export CUDA_VISIBLE_DEVICES=2,3\nRuntimeError: No CUDA GPUs are available\nmachine has 2 GPUs",),
        (
            'I cuda_diagnostics.cc:153] env: CUDA_VISIBLE_DEVICES="-1"\n'
            "E failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n"
            "CUDA_VISIBLE_DEVICES is set to -1 - this hides all GPUs from CUDA",
        ),
        (
            "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"
            "RuntimeError: CUDA error: no CUDA-capable device is detected\n"
            "I have only one GPU",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["cuda-visible-devices-hides"]


@pytest.mark.parametrize(
    "texts",
    [
        ("CUDA_VISIBLE_DEVICES=0 but the process runs on GPU 1 in nvidia-smi\nGPU 0: GTX 1050\nGPU 1: RTX 3090",),
        (
            "import torch\n"
            "use_cuda = torch.cuda.is_available()\n"
            "import os\n"
            'os.environ["CUDA_VISIBLE_DEVICES"] = "3"\n'
            "net = torch.nn.Linear(4, 4).cuda()\n",
        ),
        ("torch.cuda.is_available() returns False\ntorch.__version__ is 1.13.1+cpu, RTX 3060, driver 528.02",),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "cuda-visible-devices-hides" not in slugs(*texts)


@pytest.mark.parametrize(
    "text",
    [
        """\
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import torch
model = torch.nn.Linear(4, 2).cuda()
""",
        """\
import os
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 2).to(device)
""",
        """\
import os
import torch
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # debug
def main():
    x = torch.zeros(4).to("cuda")
main()
""",
        """\
import os
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import torch
class T:
    def __init__(self):
        self.m = torch.nn.Linear(2, 2).to("cuda:0")
T()
""",
        """\
import os
os.putenv("CUDA_VISIBLE_DEVICES", "-1")
import torch
net = torch.nn.Linear(2, 2)
net = net.cuda()
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "cuda-visible-devices-hides" in linted(text)


FIT = "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.fit(x, y)\n"


@pytest.mark.parametrize(
    "text",
    [
        'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "-1"\n' + FIT,
        "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = ''\nimport jax\ng = jax.grad(f)(p)\n",
    ],
)
def test_training_with_tensorflow_or_jax_is_hidden_too(text: str) -> None:
    assert linted(text) == ["cuda-visible-devices-hides"]


@pytest.mark.parametrize(
    "text",
    [
        'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"\n' + FIT,
        'import os\nif args.cpu:\n    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"\n' + FIT,
        'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "-1"\nimport tensorflow as tf\nprint(tf.constant(1))\n',
        'import os\nos.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"\n' + FIT,
        'import os\n# this model runs on the CPU\nos.environ["CUDA_VISIBLE_DEVICES"] = ""\n' + FIT,
    ],
)
def test_training_with_tensorflow_that_sees_the_gpu(text: str) -> None:
    assert linted(text) == []


@pytest.mark.parametrize("value", ["$0", "<GPU_ID>", "[0]", "gpu_ids"])
def test_a_value_that_is_no_number(value: str) -> None:
    command = f"$ CUDA_VISIBLE_DEVICES={value} python train.py\n"
    assert slugs(command + "RuntimeError: No CUDA GPUs are available") == ["cuda-visible-devices-hides"]
    assert "cuda-visible-devices-hides" not in slugs(command + "epoch 1 loss 2.0")


def test_a_value_that_a_script_fills_in() -> None:
    assert "cuda-visible-devices-hides" not in slugs("CUDA_VISIBLE_DEVICES=$1 python train.py\nRuntimeError: No CUDA GPUs are available")
