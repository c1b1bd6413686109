import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "import torch\n"
            "use_cuda = torch.cuda.is_available()\n"
            "import os\n"
            'os.environ["CUDA_VISIBLE_DEVICES"] = "3"\n'
            "net = torch.nn.Linear(4, 4).cuda()\n",
        ),
        ("When I added os.environ['CUDA_VISIBLE_DEVICES']='1' in train.py,\nthe code will always use cuda:0",),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["cuda-visible-devices-late"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "$ echo $CUDA_VISIBLE_DEVICES\n-1",
            "torch.cuda.is_available() False",
        ),
        ("CUDA_VISIBLE_DEVICES=0 but the process runs on GPU 1 in nvidia-smi\nGPU 0: GTX 1050\nGPU 1: RTX 3090",),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "cuda-visible-devices-late" not in slugs(*texts)
