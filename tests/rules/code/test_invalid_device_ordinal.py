# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, lint, slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: invalid device ordinal",
        "AssertionError: Invalid device id",
        "lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu: [1]\n"
        " But your machine only has: [0]",
        "ValueError: Invalid CUDA 'device=1' requested. Use 'device=cpu' or pass valid CUDA device(s) if "
        "available, i.e. 'device=0' or 'device=0,1,2,3' for Multi-GPU.\n"
        "\n"
        "torch.cuda.is_available(): True\n"
        "torch.cuda.device_count(): 1",
        "InvalidArgumentError: Cannot assign a device for operation 'x': Operation was explicitly assigned "
        "to /device:GPU:1 but available devices are [ /job:localhost/replica:0/task:0/device:CPU:0, "
        "/job:localhost/replica:0/task:0/device:GPU:0 ]. Make sure the device specification refers to a "
        "valid device.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "invalid-device-ordinal"


HEAD = "import os\nimport torch\nfrom torch import nn\nmodel = nn.Linear(4, 2)\n"


def _placed(text: str) -> list[tuple[str, int, str]]:
    return [(f.variant, f.refs[0].line, f.weight.name) for f in lint(HEAD + text).findings if f.slug == "invalid-device-ordinal"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("device = torch.device('cuda:1')\nmodel.to(device)\n", ("source", 5, "WARNING")),
        ("device = torch.device('cuda:1' if torch.cuda.is_available() else 'cpu')\nmodel.to(device)\n", ("source", 5, "WARNING")),
        ("model.cuda(2)\n", ("source", 5, "WARNING")),
        ("torch.cuda.set_device(3)\nmodel.cuda()\n", ("source", 5, "NOTE")),
        ("def main():\n    name = 'cuda:5'\n    model.to(name)\nmain()\n", ("source", 7, "WARNING")),
        ("state = torch.load('a.pt', map_location='cuda:1')\n", ("source", 5, "WARNING")),
        ("a = model.to('cuda:0')\nb = nn.Linear(2, 2).to('cuda:1')\n", ("source", 6, "NOTE")),
        ("nn.DataParallel(model, device_ids=[0, 1, 2, 3])\n", ("source", 5, "NOTE")),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '1'\nmodel.to('cuda:1')\n", ("visible", 6, "ERROR")),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'\nnn.DataParallel(model, device_ids=[0, 1, 2])\n", ("visible", 6, "ERROR")),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '3'\nmodel.cuda()\n", ("source", 5, "NOTE")),
    ],
)
def test_found_in_source(text: str, found: tuple[str, int, str]) -> None:
    assert _placed(text) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "model.to('cuda:0')\n",
        "model.cuda()\n",
        "device = torch.device('cuda:1' if torch.cuda.device_count() > 1 else 'cuda:0')\nmodel.to(device)\n",
        "for i in range(torch.cuda.device_count()):\n    model.to(f'cuda:{i}')\n",
        "model.to(f'cuda:{local_rank}')\ntorch.cuda.set_device(local_rank)\n",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--device', default='cuda:1')\nmodel.to(p.parse_args().device)\n",
        "def run(device='cuda:1'):\n    model.to(device)\n",
        "state = torch.load('a.pt', map_location={'cuda:1': 'cuda:0'})\n",
        "os.environ['CUDA_VISIBLE_DEVICES'] = '0'\nmodel.to('cuda:0')\n",
        "os.environ['CUDA_VISIBLE_DEVICES'] = args.gpu\nmodel.cuda()\n",
        "x = torch.zeros(3).to(1)\ny = x.sum(1)\n",
        "if device == 'cuda:1':\n    pass\n",
        "print('use cuda:1')\n",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert _placed(text) == []


def test_the_machine_settles_it() -> None:
    one = "GPU 0: NVIDIA A100 (UUID: GPU-5a4b1c7e-1111-2222-3333-444455556666)\n"
    text = HEAD + "model.to('cuda:1')\n"
    assert "invalid-device-ordinal" in slugs(text, one)
    assert "invalid-device-ordinal" not in slugs(text, one + "GPU 1: NVIDIA A100 (UUID: GPU-5a4b1c7e-1111-2222-3333-444455556667)\n")


def test_the_error_is_told_with_its_place() -> None:
    first = explain(HEAD + "model.to('cuda:1')\n", "RuntimeError: CUDA error: invalid device ordinal").findings[0]
    assert (first.slug, first.variant) == ("invalid-device-ordinal", "")
    assert any("cuda:1" in ref.quote for ref in first.refs)


def test_more_processes_than_cards() -> None:
    text = "import torch.multiprocessing as mp\nmp.spawn(main, args=(4,), nprocs=4)  # cuda\n"
    assert _placed(text) == [("source", 6, "NOTE")]
    assert "invalid-device-ordinal" in slugs(HEAD + text, "GPU 0: NVIDIA A100 (UUID: GPU-5a4b1c7e-1111-2222-3333-444455556666)\n")
    assert _placed(text.replace("nprocs=4", "nprocs=torch.cuda.device_count()")) == []
    assert _placed(text.replace("nprocs=4", "nprocs=world_size")) == []
    assert _placed(text.replace("nprocs=4", "nprocs=1")) == []


def test_the_line_that_chose_the_card_is_quoted() -> None:
    error = '  File "options.py", line 114, in parse\n    torch.cuda.set_device(opt.gpu_ids[0])\nRuntimeError: CUDA error: invalid device ordinal'
    assert any("opt.gpu_ids" in ref.quote for ref in explain(error).findings[0].refs)
