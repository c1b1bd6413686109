import pytest
from asking import linted, slugs
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
