import pytest
from asking import lint, linted, notes


def told(text: str) -> list[str]:
    return [f.slug for f in lint(text).findings]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nwith torch.cuda.amp.autocast():\n    pass\n",
        "import torch\nfrom torch.cuda.amp import GradScaler\nscaler = GradScaler()\n",
        "import torch\ntorch.set_default_tensor_type('torch.cuda.FloatTensor')\n",
        "import torch\nfrom torch.autograd import Variable\nx = Variable(torch.zeros(3).cuda(), volatile=True)\n",
        "import torch\nx = torch.cuda.FloatTensor(3)\n",
        "from torch.cuda import amp\ndef f():\n    with amp.autocast(enabled=True):\n        pass\n",
    ],
)
def test_a_note(text: str) -> None:
    assert "deprecated-gpu-api" in told(text)
    assert "deprecated-gpu-api" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nwith torch.amp.autocast('cuda'):\n    pass\nwith torch.autocast('cuda'):\n    pass\n",
        "import torch\nscaler = torch.amp.GradScaler('cuda')\n",
        "import torch\ntorch.set_default_device('cuda')\n",
        "import torch\nfrom torch.autograd import Variable\nx = Variable(torch.zeros(3).cuda())\n",
    ],
)
def test_silence(text: str) -> None:
    assert "deprecated-gpu-api" not in told(text)


def test_the_new_name_is_written() -> None:
    text = "import torch\nwith torch.cuda.amp.autocast(enabled=True):  # half\n    pass\n"
    finding = next(f for f in lint(text).findings if f.slug == "deprecated-gpu-api")
    assert [e.text for e in finding.edits] == ["torch.amp.autocast", ', device_type="cuda"']


def test_its_words_in_a_log_are_not_its_matter() -> None:
    assert "deprecated-gpu-api" not in notes("FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated.")
