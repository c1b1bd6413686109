import pytest
from asking import linted, slugs


@pytest.mark.parametrize(
    "text",
    [
        "UserWarning: \n"
        "    There is an imbalance between your GPUs. You may want to exclude GPU 1 which\n"
        "    has less than 75% of the memory or cores of GPU 0. You can do so by setting",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "dataparallel-imbalance"


@pytest.mark.parametrize(
    "text",
    [
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.Linear(4, 2).cuda())
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    loss = model(torch.ones(8, 4).cuda()).mean()
    loss.backward()
    opt.step()
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
def train(net):
    for step in range(9):
        net(torch.ones(8, 4).cuda()).mean().backward()

train(torch.nn.DataParallel(nn.Linear(4, 2)).cuda())
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "dataparallel-imbalance" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.Linear(4, 2).cuda(), device_ids=[0])
for step in range(9):
    model(torch.ones(8, 4).cuda()).mean().backward()
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
if torch.cuda.device_count() > args.least:
    model = nn.DataParallel(model, device_ids=args.gpus)
for step in range(9):
    model(torch.ones(8, 4).to(device)).mean().backward()
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.Linear(4, 2).cuda())
with torch.no_grad():
    print(model(torch.ones(8, 4).cuda()).shape)
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "dataparallel-imbalance" not in linted(text)
