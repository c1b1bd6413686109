import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.framework import Packages, TensorFlow, Torch
from ongpu.hosts.pasted import read_text
from ongpu.sources import python_packages

CONDA = """\
# Name                    Version                   Build  Channel
cudatoolkit               11.3.1               h2bc3f7f_2
pytorch                   1.9.0               py3.8_cpu_0  pytorch
tensorflow                1.10.0                   py36_0    conda-forge
"""
SHOW = """\
Name: torch
Version: 2.4.0+cu121
Summary: Tensors and Dynamic neural networks
Location: /venv/lib/python3.11/site-packages
---
Name: torchvision
Version: 0.20.1+cu124
"""
UV = """\
Installed 3 packages in 1.2s
 + jax==0.6.1
 + jaxlib==0.6.1
 + nvidia-nvjitlink-cu12==12.9.41
"""


def read(text: str, kind: type) -> object:
    facts = [fact for item in read_text(text, "paste") for fact in python_packages.read(item)]
    return next((fact for fact in facts if isinstance(fact, kind)), None)


def versions(text: str) -> dict[str, str]:
    packages = read(text, Packages)
    return (
        {name: package.version for name, package in packages.packages.items()} if isinstance(packages, Packages) else {}
    )


def test_conda_list() -> None:
    assert versions(CONDA) == {"cudatoolkit": "11.3.1", "torch": "1.9.0", "tensorflow": "1.10.0"}
    torch = read(CONDA, Torch)
    assert isinstance(torch, Torch)
    assert torch.cuda == ""


def test_pip_show() -> None:
    assert versions(SHOW) == {"torch": "2.4.0+cu121", "torchvision": "0.20.1+cu124"}
    torch = read(SHOW, Torch)
    assert isinstance(torch, Torch)
    assert (torch.cuda, torch.location) == ("12.1", "/venv/lib/python3.11/site-packages")


def test_uv_output() -> None:
    assert versions(UV) == {"jax": "0.6.1", "jaxlib": "0.6.1", "nvidia-nvjitlink-cu12": "12.9.41"}


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ("onnxruntime-gpu 1.19.0 (1.18.1 worked)", "onnxruntime-gpu", "1.19.0"),
        ("torch==1.6.0, torchvision 0.7.0+cu101", "torchvision", "0.7.0+cu101"),
        ("PyTorch Version: 2.3.1+cu121", "torch", "2.3.1+cu121"),
        ("[pip3] nvidia-nccl-cu13==2.29.7", "nvidia-nccl-cu13", "2.29.7"),
        ("TensorFlow 2.1.0 (pip), Python 3.7.7", "tensorflow", "2.1.0"),
        ("Check ONNXRuntime Ver. 1.19.2", "onnxruntime", "1.19.2"),
        ("Found existing installation: torch 2.8.0", "torch", "2.8.0"),
        ("cupy-cuda12x", "cupy-cuda12x", ""),
    ],
)
def test_told_in_prose(text: str, name: str, version: str) -> None:
    assert versions(text)[name] == version


@pytest.mark.parametrize(
    "text",
    [
        "pip install torch==1.10.0+cu111",
        "ERROR: Could not find a version that satisfies the requirement torch==2.5.1 (from versions: 2.6.0)",
        "torchvision 0.15.1 requires torch==2.0.0, but something else is there",
    ],
)
def test_what_was_only_asked_for_is_not_installed(text: str) -> None:
    assert "torch" not in versions(text)


@pytest.mark.parametrize(
    ("version", "build", "cuda"),
    [
        ("2.1.0+cu121", "", "12.1"),
        ("2.9.0+cu130", "", "13.0"),
        ("1.9.0", "py3.8_cuda11.1_cudnn8.0.5_0", "11.1"),
        ("2.1.0", "cuda120py39h_1", "12.0"),
        ("2.2.0+cpu", "", ""),
        ("2.0.0", "cpu_generic_py39h_1", ""),
        ("2.1.0", "", None),
    ],
)
def test_cuda_of_a_build(version: str, build: str, cuda: str | None) -> None:
    assert python_packages.cuda_of(version, build) == cuda


def test_tensorflow_is_told() -> None:
    flow = read(CONDA, TensorFlow)
    assert isinstance(flow, TensorFlow)
    assert flow.version == "1.10.0"


@settings(derandomize=True, max_examples=60)
@given(st.text())
def test_no_text_makes_it_crash(text: str) -> None:
    for item in read_text(text, "paste"):
        list(python_packages.read(item))
