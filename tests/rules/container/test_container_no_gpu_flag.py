# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        '$ docker run -it --rm pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime python\n>>> import torch\n>>> torch.cuda.is_available()\nFalse\n',
        'singularity exec image.sif python train.py\nRuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU',
        'services:\n  app:\n    image: ollama/ollama\n    ports: [\'11434:11434\']\n\nlevel=INFO msg="no compatible GPUs were discovered"',
        "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.\n   Use 'nvidia-docker run' to start this container",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "container-no-gpu-flag"


@pytest.mark.parametrize(
    "text",
    [
        '$ docker run --gpus all nvidia/cuda:12.2.0-base-ubuntu22.04 nvidia-smi\n>>> import torch\n>>> torch.cuda.is_available()\nFalse\n',
        '$ docker run --gpus all x nvidia-smi\ndocker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
        '$ docker run -d postgres:15\n',
        "$ apptainer exec --nv image.sif python -c 'import torch; print(torch.cuda.is_available())'\nTrue",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "container-no-gpu-flag" not in slugs(text)


def test_another_failure_is_not_blamed_on_it() -> None:
    assert slugs("$ docker run -it pytorch/pytorch python t.py\nModuleNotFoundError: No module named 'yaml'") == []


def test_a_banner_that_is_wrong_because_the_gpu_is_there() -> None:
    assert slugs("WARNING: The NVIDIA Driver was not detected.\n|   0  NVIDIA GeForce RTX 3060  On  | 00000000:01:00.0 On | N/A |\n WSL2") == []
