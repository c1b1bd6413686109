from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.driver import Driver
from ongpu.facts.framework import Python, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.libraries import Toolkit
from ongpu.hosts.pasted import read_text
from ongpu.model import Fact
from ongpu.sources import collect_env

TORCH = """\
PyTorch version: 1.5.0
Is debug build: No
CUDA used to build PyTorch: 10.2

OS: Ubuntu 18.04.3 LTS
GCC version: (Ubuntu 7.4.0-1ubuntu1~18.04.1) 7.4.0

Python version: 3.6
Is CUDA available: No
CUDA runtime version: 10.0.130
GPU models and configuration:
GPU 0: Tesla P100-PCIE-16GB
GPU 1: Tesla P100-PCIE-16GB

Nvidia driver version: 410.104
cuDNN version: /usr/lib/x86_64-linux-gnu/libcudnn.so.7.6.5
"""
TRANSFORMERS = """\
- `transformers` version: 4.36.2
- Platform: Windows-10-10.0.19045-SP0
- Python version: 3.10.6
- PyTorch version (GPU?): 2.1.2+cpu (False)
- Tensorflow version (GPU?): 2.15.0 (False)
"""
YOLO = "Ultralytics YOLOv8.0.20 Python-3.10.6 torch-1.13.1+cu117 CUDA:0 (NVIDIA GeForce RTX 3060, 12288MiB)"


def read(text: str) -> dict[type, Fact]:
    return {type(fact): fact for item in read_text(text, "paste") for fact in collect_env.read(item)}


def test_torch() -> None:
    facts = read(TORCH)
    torch, driver, toolkit, gpus = facts[Torch], facts[Driver], facts[Toolkit], facts[Gpus]
    assert isinstance(torch, Torch)
    assert (torch.version, torch.cuda, torch.available) == ("1.5.0", "10.2", False)
    assert isinstance(driver, Driver)
    assert driver.version == "410.104"
    assert isinstance(toolkit, Toolkit)
    assert (toolkit.nvcc, toolkit.cudnn, toolkit.gcc) == ("10.0", "7.6.5", "7.4.0")
    assert isinstance(gpus, Gpus)
    assert [gpu.name for gpu in gpus.gpus] == ["Tesla P100-PCIE-16GB"] * 2


def test_a_cpu_build_has_no_cuda() -> None:
    torch = read("PyTorch version: 2.0.1+cpu\nCUDA used to build PyTorch: Could not collect\n")[Torch]
    assert isinstance(torch, Torch)
    assert torch.cuda == ""


def test_transformers() -> None:
    facts = read(TRANSFORMERS)
    torch, flow, python = facts[Torch], facts[TensorFlow], facts[Python]
    assert isinstance(torch, Torch)
    assert (torch.cuda, torch.available) == ("", False)
    assert isinstance(flow, TensorFlow)
    assert flow.gpus == 0
    assert isinstance(python, Python)
    assert python.version == "3.10.6"


def test_ultralytics() -> None:
    facts = read(YOLO)
    torch, gpus = facts[Torch], facts[Gpus]
    assert isinstance(torch, Torch)
    assert (torch.version, torch.available) == ("1.13.1+cu117", True)
    assert isinstance(gpus, Gpus)
    assert gpus.names == ("NVIDIA GeForce RTX 3060",)


@settings(derandomize=True, max_examples=60)
@given(st.text())
def test_no_text_makes_it_crash(text: str) -> None:
    read("Is CUDA available: " + text)
