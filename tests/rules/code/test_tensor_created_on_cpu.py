import pytest
from asking import linted, slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input and hidden tensors are not at the same device, found input tensor at cuda:0 and "
        "hidden tensor at cpu",
        '  File "model.py", line 40, in forward\n'
        "    x = x + self.make_pos(x)\n"
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cpu!",
        "RuntimeError: All input tensors must be on the same device. Received cuda:0 and cpu",
        '  File "m.py", line 3, in forward\n'
        "    h = torch.cat([x, torch.zeros(4, 8)], 1)\n"
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cpu! (when checking argument for argument tensors in method wrapper_CUDA_cat)",
        "RuntimeError: expected self and mask to be on the same device, but got mask on cpu and self on "
        "cuda:0",
        "RuntimeError: No backend type associated with device type cpu",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "tensor-created-on-cpu"


@pytest.mark.parametrize(
    "text",
    [
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        pass

    def forward(self, x):
        x = nn.BatchNorm1d(4)(x)
        return self.fc(x)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        pass

    def forward(self, x):
        return self.fc(x) + torch.arange(4)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        pass

    def forward(self, x):
        mask = torch.ones(4, 4)
        return self.fc(x) @ mask

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "tensor-created-on-cpu" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        pass

    def forward(self, x):
        return self.fc(x) + torch.arange(4, device=x.device)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        pass

    def forward(self, x):
        return self.fc(x) + torch.arange(4).to(x)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        pass

    def forward(self, x):
        return self.fc(x) + torch.zeros_like(x) + x.new_ones(4)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("table", torch.arange(4.0))

    def forward(self, x):
        return self.fc(x) + self.table

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        pass

    def forward(self, x):
        return nn.ReLU()(self.fc(x)) * torch.tensor(2.0)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        pass

    def forward(self, x):
        return self.fc(x) + torch.arange(4)

net = Net()
net(torch.ones(2, 4))
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "tensor-created-on-cpu" not in linted(text)
