import pytest
from asking import linted, slugs


@pytest.mark.parametrize(
    "text",
    [
        '  File "train.py", line 80, in validate\n'
        "    out = model(x)\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; "
        "9.71 GiB already allocated; 20.44 MiB free; 9.80 GiB reserved in total by PyTorch)",
        "The training works but I get out of memory during validation:\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; "
        "9.71 GiB already allocated; 20.44 MiB free; 9.80 GiB reserved in total by PyTorch)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "oom-eval-with-grad"


@pytest.mark.parametrize(
    "text",
    [
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2, 4, device=device)).mean().backward()
model.eval()
for x in DataLoader(list(range(9)), 2):
    print(model(x.to(device)).argmax())
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
def evaluate(net, loader):
    net.eval()
    total = 0
    for x, y in loader:
        total += (net(x.to(device)).argmax(1) == y.to(device)).sum().item()
    return total

for x, y in DataLoader([], 2):
    model(x.to(device)).mean().backward()
evaluate(model, DataLoader([], 2))
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "oom-eval-with-grad" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model.eval()
with torch.no_grad():
    for x in DataLoader(list(range(9)), 2):
        print(model(x.to(device)).argmax())
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
@torch.inference_mode()
def evaluate(net, loader):
    net.eval()
    for x, y in loader:
        print(net(x.to(device)))

evaluate(model, DataLoader([], 2))
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model.eval()
for x in DataLoader(list(range(9)), 2):
    x = x.to(device).requires_grad_(True)
    grad = torch.autograd.grad(model(x).sum(), x)
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model.eval()  # frozen statistics, yet trained
for x in DataLoader(list(range(9)), 2):
    model(x.to(device)).mean().backward()
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "oom-eval-with-grad" not in linted(text)
