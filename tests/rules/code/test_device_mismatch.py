# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, lint, linted, slugs
from parts.programs import TRAINED


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cuda:1!",
        "RuntimeError: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor",
        "RuntimeError: Expected all tensors to be on the same device, but got mat2 is on cuda:1, different "
        "from other tensors on cuda:0 (when checking argument in method wrapper_CUDA_bmm)",
        "RuntimeError: arguments are located on different GPUs at "
        "/pytorch/aten/src/THC/generic/THCTensorMathBlas.cu:253",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cpu!",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "device-mismatch"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x512 and 256x10)",
    ],
)
def test_neighbours(text: str) -> None:
    assert "device-mismatch" not in slugs(text)


@pytest.mark.parametrize(
    "text",
    [
        TRAINED
        + """
x, y = next(iter(loader))
y = y.to(device)
out = model(x.to(device)).detach().cpu()
print((out.argmax(1) - y).abs())
""",
        TRAINED
        + """
for x, y in loader:
    preds = model(x.to(device)).argmax(1)
    hits = preds.eq(y)
""",
        TRAINED
        + """
for x, y in loader:
    out = model(x.to(device))
    loss = ((out - y) ** 2).mean()
    loss.backward()
""",
        TRAINED
        + """
@torch.no_grad()
def evaluate():
    correct = 0
    for x, y in loader:
        p = model(x.to(device)).argmax(dim=1)
        correct += (p == y).sum().item()
    return correct
evaluate()
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "device-mismatch" in linted(text)


CARDS = "import torch\nfrom torch import nn\nmodel = nn.Linear(20, 20).to('cuda:0')\n"


@pytest.mark.parametrize(
    "text",
    [
        "x = torch.rand(4, 20).to('cuda:1')\nmodel(x)",
        "x = torch.rand(4, 20, device='cuda:1')\nmodel(x)",
        "x = torch.rand(4, 20).cuda(1)\nmodel(x)",
        "x = torch.rand(4, 20).to(torch.device('cuda', 1))\nmodel(x)",
    ],
)
def test_two_cards_by_number(text: str) -> None:
    (finding,) = [f for f in lint(CARDS + text).findings if f.slug == "device-mismatch"]
    assert (finding.values["one"], finding.values["other"]) == ("cuda:1", "cuda:0")


@pytest.mark.parametrize(
    "text",
    [
        "x = torch.rand(4, 20).to('cuda:0')\nmodel(x)",
        "x = torch.rand(4, 20).to('cuda:1')\nmodel(x.to('cuda:0'))",
        "x = torch.rand(4, 20).to('cuda:1')\nmodel.to('cuda:1')\nmodel(x)",
        "x = torch.rand(4, 20).cuda()\nmodel(x)",
        "x = torch.rand(4, 20).to('cuda:1')\nnn.DataParallel(model)(x)",
        "import sys\nx = torch.rand(4, 20).to('cuda:1')\nif sys.argv:\n    model.to('cuda:1')\nmodel(x)",
    ],
)
def test_one_card_as_far_as_is_known(text: str) -> None:
    assert "device-mismatch" not in linted(CARDS + text)


def test_an_old_name_of_a_tensor_that_was_moved() -> None:
    text = "import torch\ndevice = torch.device('cuda')\nx = torch.ones(3)\ny = x\nx = x.to(device)\nz = torch.cat((y, x * 2))\n"
    assert linted(text) == ["device-mismatch"]
    assert linted(text.replace("y = x\nx = x.to(device)", "x = x.to(device)\ny = x")) == []


BACK = "import torch\na, b = torch.ones(3), torch.ones(3)\na = a.to('cuda')\nb = b.to('cuda')\na = a.to('cpu')\nprint(a + b)\n"


def test_brought_back_is_not_left_behind() -> None:
    found = [(f.variant, f.refs[1].line) for f in lint(BACK).findings if f.slug == "device-mismatch"]
    assert found == [("source", 5)]


COMBINATION = "TypeError: add_ received an invalid combination of arguments - got (float, torch.{}FloatTensor), but expected one of:\n * (float value)\n * (torch.{}FloatTensor other)\n * (float value, torch.{}FloatTensor other)\n"


def test_the_words_of_the_first_releases() -> None:
    assert slugs("    y = x.add_(2, z)\n" + COMBINATION.format("cuda.", "", "")), "a CUDA tensor for one on the CPU"
    assert slugs("    optimizer.step()\n    exp_avg.mul_(beta1).add_(1 - beta1, grad)\n" + COMBINATION.format("cuda.", "", ""))[0] == "optimizer-before-move"
    assert not slugs("TypeError: full() received an invalid combination of arguments - got (list, int, pin_memory=bool), but expected one of:\n * (tuple of ints size, Number fill_value)\n")
    assert not slugs(COMBINATION.format("cuda.", "cuda.", "cuda."))


def test_a_package_that_calls_torch_is_quoted() -> None:
    text = '  File "/v/lib/python3.12/site-packages/DCLS/modules.py", line 457, in forward\n    P = P + self.lim // 2\nRuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!'
    assert any("self.lim" in ref.quote for ref in explain(text).findings[0].refs)
