# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import lint, slugs


@pytest.mark.parametrize(
    "texts",
    [
        ("CUDA_VISIBLE_DEVICES=0 but the process runs on GPU 1 in nvidia-smi\nGPU 0: GTX 1050\nGPU 1: RTX 3090",),
        (
            "the device numbers of the program and nvidia-smi do not match\n"
            "GPU 0: Quadro P620 (UUID: GPU-0b0c0d0e-0000-1111-2222-333344445555)\n"
            "GPU 1: TITAN RTX (UUID: GPU-a1b2c3d4-0000-1111-2222-333344445555)",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["cuda-device-order"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "$ echo $CUDA_VISIBLE_DEVICES\n-1",
            "torch.cuda.is_available() False",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "cuda-device-order" not in slugs(*texts)


HEAD = "import os\nimport pynvml, subprocess, torch\n"
FREEST = "def freest():\n    pynvml.nvmlInit()\n    return max(range(4), key=lambda i: pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(i)).free)\n"


def _weights(text: str) -> list[tuple[int, str]]:
    return [(f.refs[0].line, f.weight.name) for f in lint(HEAD + text).findings if f.slug == "cuda-device-order"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (FREEST + "torch.cuda.set_device(freest())\n", (6, "WARNING")),
        (FREEST + "device = torch.device(f'cuda:{freest()}')\n", (6, "WARNING")),
        (FREEST + "best = freest()\nmodel = torch.nn.Linear(2, 2).to('cuda:' + str(best))\n", (7, "WARNING")),
        ("import GPUtil\nids = GPUtil.getAvailable(order='memory')\ntorch.nn.Linear(2, 2).cuda(ids[0])\n", (5, "WARNING")),
        ("out = subprocess.check_output(['nvidia-smi', '--query-gpu=memory.free', '--format=csv'])\nbest = pick(out)\ntorch.cuda.set_device(best)\n", (5, "WARNING")),
        (FREEST + "os.environ['CUDA_VISIBLE_DEVICES'] = str(freest())\n", (6, "NOTE")),
        (
            "best, most = 0, 0\nfor i in range(4):\n    free = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(i)).free\n"
            "    if free > most:\n        best, most = i, free\ntorch.cuda.set_device(best)\n",
            (8, "WARNING"),
        ),
    ],
)
def test_numbers_of_nvidia_smi_used_as_cudas(text: str, found: tuple[int, str]) -> None:
    assert _weights(text) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "os.environ['CUDA_DEVICE_ORDER'] = 'PCI_BUS_ID'\n" + FREEST + "torch.cuda.set_device(freest())\n",
        FREEST + "print(freest())\ntorch.cuda.set_device(0)\n",
        FREEST + "torch.cuda.set_device(local_rank)\n",
        FREEST + "torch.cuda.set_device(args.gpu)\n",
        "best = max(range(torch.cuda.device_count()), key=lambda i: torch.cuda.mem_get_info(i)[0])\ntorch.cuda.set_device(best)\n",
        "print(subprocess.check_output(['nvidia-smi']))\nmodel = torch.nn.Linear(2, 2).to('cuda')\n",
        "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n" + FREEST,
        FREEST + "x = torch.zeros(3).to(device)\n",
        "print('see nvidia-smi')\ntorch.cuda.set_device(choose())\n",
        FREEST + "print(freest())\ntorch.cuda.set_device(job.number % torch.cuda.device_count())\n",
        "DEVICE = pick()\ndef names():\n    return subprocess.check_output(['nvidia-smi', '-L'])\ntorch.cuda.set_device(torch.device(DEVICE))\n",
        FREEST + "handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)\ntorch.cuda.set_device(freest())\n",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert _weights(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "with several different cards the GPU index of CUDA may not match the index shown in nvidia-smi",
        "ethminer is not reporting the GPUs in the same order as nvidia-smi; a 1070 and several 1060s",
    ],
)
def test_the_order_is_told(text: str) -> None:
    assert slugs(text) == ["cuda-device-order"]


def test_the_order_is_told_to_be_right() -> None:
    assert slugs("the program reports the GPUs in the same order as nvidia-smi") == []


SMI = "$ nvidia-smi --query-gpu=name,memory.total,index --format=csv,noheader\nNVIDIA GeForce GTX 1660 SUPER, 6144 MiB, 0\nNVIDIA GeForce RTX 3090, 24576 MiB, 1\n"


@pytest.mark.parametrize("first", ["Device 0: {}, compute capability 8.6\nDevice 1: {}, compute capability 7.5", "CUDA:0 ({}, 24268MiB)\nCUDA:1 ({}, 5929MiB)"])
def test_two_lists_of_the_same_cards(first: str) -> None:
    names = ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce GTX 1660 SUPER")
    assert slugs(SMI, first.format(*names)) == ["cuda-device-order"]
    assert slugs(SMI, first.format(*reversed(names))) == []
    assert slugs(SMI, first.format(names[0], "NVIDIA A100")) == []  # another machine's
