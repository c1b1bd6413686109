import pytest
from asking import slugs


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
