import pytest
from asking import slugs


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
