import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.framework import Jax, OnnxRuntime, TensorFlow, Torch
from ongpu.hosts.pasted import read_text
from ongpu.model import Fact
from ongpu.sources import interactive


def read(text: str) -> list[Fact]:
    return [fact for item in read_text(text, "paste") for fact in interactive.read(item)]


def of(text: str, kind: type, field: str) -> object:
    return next((getattr(f, field) for f in read(text) if isinstance(f, kind) and getattr(f, field) is not None), None)


@pytest.mark.parametrize(
    "text",
    [
        ">>> import torch\n>>> torch.cuda.is_available()\nFalse",
        "$ python -c 'import torch; print(torch.cuda.is_available())'\nFalse",
        "$ python -c 'import torch; print(torch.__version__, torch.cuda.is_available())'\n2.14.1+cu130 False",
        "In [1]: torch.cuda.is_available()\nOut[1]: False",
        "torch.cuda.is_available() returns False",
        "torch.cuda.is_available() -> False",
        "Is CUDA available: No",
        "print(torch.cuda.is_available())\nFalse",
        "import sys, torch\nprint(sys.executable, torch.__version__, torch.cuda.is_available())\nC:\\p\\python.exe 1.10.2+cpu False",
    ],
)
def test_is_available(text: str) -> None:
    assert of(text, Torch, "available") is False


def test_several_answers_on_one_line() -> None:
    text = "$ python -c 'import torch; print(torch.__version__, torch.version.cuda, torch.cuda.get_arch_list())'\n"
    text += "2.14.1+cu130 13.0 ['sm_75', 'sm_80']"
    assert of(text, Torch, "version") == "2.14.1+cu130"
    assert of(text, Torch, "cuda") == "13.0"
    assert of(text, Torch, "archs") == ("sm_75", "sm_80")


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (
            ">>> tf.config.list_physical_devices(None)\n[PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]",
            0,
        ),
        ("$ python -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))\"\nx.cc:1] no\n[]\n", 0),
        (
            ">>> tf.config.list_physical_devices('GPU')\n[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]",
            1,
        ),
        ("Num GPUs Available:  0", 0),
        ("GPU is NOT AVAILABLE", 0),
    ],
)
def test_tensorflow(text: str, gpus: int) -> None:
    assert of(text, TensorFlow, "gpus") == gpus


def test_jax() -> None:
    assert of(">>> jax.devices()\n[CpuDevice(id=0)]", Jax, "backend") == "cpu"
    assert of(">>> jax.devices()\n[CudaDevice(id=0)]", Jax, "backend") == "gpu"


def test_onnxruntime() -> None:
    text = ">>> print(\"Available:\", ort.get_available_providers())\nAvailable: ['AzureExecutionProvider', 'CPUExecutionProvider']"
    assert of(text, OnnxRuntime, "providers") == ("AzureExecutionProvider", "CPUExecutionProvider")


@settings(derandomize=True, max_examples=60)
@given(st.text())
def test_no_text_makes_it_crash(text: str) -> None:
    read(">>> torch.cuda.is_available()\n" + text)
