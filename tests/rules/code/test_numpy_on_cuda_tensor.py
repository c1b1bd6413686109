import pytest
from asking import linted, slugs
from parts.programs import HEAD, MODEL, START, TRAINED


@pytest.mark.parametrize(
    "text",
    [
        "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
        "host memory first.",
        "TypeError: can't convert CUDA tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
        "first.",
        "TypeError: Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a "
        "NumPy array explicitly.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "numpy-on-cuda-tensor"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
    ],
)
def test_neighbours(text: str) -> None:
    assert "numpy-on-cuda-tensor" not in slugs(text)


@pytest.mark.parametrize(
    "text",
    [
        START + """\
x = torch.ones(3, device="cuda")
print(x.numpy())
""",
        "import numpy as np\n" + START + MODEL + """\
print(np.mean(model(torch.ones(2, 4, device=device))))
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "numpy-on-cuda-tensor" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\n" + START + MODEL + """\
print(model(torch.ones(2, 4, device=device)).detach().cpu().numpy())
""",
        START + """\
x = torch.ones(3)
print(x.numpy())
""",
        START + """\
x = torch.ones(3, device="cuda")
print(x.numpy(force=True))
""",
        "import numpy as np\n" + START + """\
x = torch.ones(3, device="cuda")
print(np.mean(x.tolist()))
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "numpy-on-cuda-tensor" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        TRAINED
        + """
x, y = next(iter(loader))
out = model(x.to(device))
print(out.detach().numpy())
""",
        TRAINED
        + """
import numpy as np
preds = []
with torch.no_grad():
    for x, y in loader:
        preds.append(model(x.to(device)).numpy())
""",
        TRAINED
        + """
import numpy as np
@torch.no_grad()
def predict(x):
    return np.array(model(x.to(device)))
print(predict(torch.randn(4, 64)))
""",
        HEAD
        + """
model = Net().cuda().eval()
with torch.no_grad():
    feats = model(torch.randn(2, 64).cuda())
    feats = feats.squeeze().numpy()
""",
        HEAD
        + """
class Runner:
    def __init__(self):
        self.model = Net().to(device)
    def predict(self, loader):
        res = []
        for x in loader:
            with torch.inference_mode():
                p = self.model(x.to(device)).softmax(-1)
            res.extend(p.argmax(-1).numpy())
        return res
Runner().predict(DataLoader(dataset, 4))
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "numpy-on-cuda-tensor" in linted(text)
