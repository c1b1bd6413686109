import pytest
from asking import lint, linted, slugs
from parts.programs import HEAD, NET, START


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
        START + NET + """\
        pass

    def forward(self, x):
        x = nn.BatchNorm1d(4)(x)
        return self.fc(x)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        START + NET + """\
        pass

    def forward(self, x):
        return self.fc(x) + torch.arange(4)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        START + NET + """\
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
        START + NET + """\
        pass

    def forward(self, x):
        return self.fc(x) + torch.arange(4, device=x.device)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        START + NET + """\
        pass

    def forward(self, x):
        return self.fc(x) + torch.arange(4).to(x)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        START + NET + """\
        pass

    def forward(self, x):
        return self.fc(x) + torch.zeros_like(x) + x.new_ones(4)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        START + NET + """\
        self.register_buffer("table", torch.arange(4.0))

    def forward(self, x):
        return self.fc(x) + self.table

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        START + NET + """\
        pass

    def forward(self, x):
        return nn.ReLU()(self.fc(x)) * torch.tensor(2.0)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        START + NET + """\
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


POSITIONS = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(9, 4), nn.Embedding(9, 4)
    def forward(self, x):
        places = torch.arange(x.shape[1]%s).unsqueeze(0)
        return self.words(x) + self.places(places)
net = Net().cuda()
net(torch.zeros(2, 3, dtype=torch.long).cuda())
"""


def test_positions_that_an_embedding_is_given() -> None:
    assert linted(POSITIONS % "") == ["tensor-created-on-cpu"]
    assert linted(POSITIONS % ", device=x.device") == []
    assert linted((POSITIONS % "").replace("Net().cuda()", "Net()").replace(".long).cuda()", ".long)")) == []


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + """
class Pos(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(512, 64)
    def forward(self, x):
        pos = torch.arange(x.size(1))
        return x + self.emb.weight[: x.size(1)] + pos.float().unsqueeze(-1)
model = Pos().to(device)
for x, y in DataLoader(dataset, 32):
    model(x.to(device))
""",
        HEAD
        + """
class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
    def forward(self, x):
        return self.fc(x) + 0.1 * torch.randn(x.shape)
net = Noise().cuda()
for x, _ in DataLoader(dataset, 8):
    net(x.cuda())
""",
        HEAD
        + """
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.mean = torch.tensor([0.485, 0.456, 0.406])
        self.std = torch.tensor([0.229, 0.224, 0.225])
    def forward(self, x):
        return self.fc((x - self.mean) / self.std)
model = Norm().to("cuda")
x = torch.randn(4, 3, device="cuda")
model(x)
""",
        HEAD
        + """
class Mask(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.q = nn.Linear(8, 8)
        self.mask = torch.tril(torch.ones(n, n))
    def forward(self, x):
        a = self.q(x) @ x.transpose(1, 2)
        return a.masked_fill(self.mask == 0, -1e9)
model = Mask(16).to(device)
def run(loader):
    for x, y in loader:
        print(model(x.to(device)).shape)
run(DataLoader(dataset, 4))
""",
        HEAD
        + """
class Cat(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
    def forward(self, x):
        pad = torch.zeros(x.size(0), 4)
        return self.fc(torch.cat([x, pad], dim=1))
model = Cat().to(device)
for x, y in DataLoader(dataset, 4):
    model(x.to(device))
""",
        HEAD
        + """
model = Net().to(device)
for x, y in DataLoader(dataset, 4, num_workers=2):
    x = x.to(device)
    noise = torch.randn(x.size(0), 64)
    out = model(x + noise)
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "tensor-created-on-cpu" in linted(text)


LOSS = """
import torch
from torch import nn
w = torch.tensor([0.1, 0.9])
net = nn.Linear(4, 2).cuda()
out = net(torch.rand(4, 4, device="cuda"))
y = torch.tensor([0, 1, 0, 1], device="cuda")
"""


@pytest.mark.parametrize(
    "text",
    [
        "crit = nn.CrossEntropyLoss(weight=w)\ncrit(out, y)",
        "crit = nn.NLLLoss(w)\ncrit(out.log_softmax(1), y)",
        "crit = nn.BCEWithLogitsLoss(pos_weight=w)\ncrit(out, y)",
    ],
)
def test_class_weights_stay_with_a_loss_that_nothing_moved(text: str) -> None:
    (finding,) = [f for f in lint(LOSS + text).findings if f.slug == "tensor-created-on-cpu"]
    assert finding.values["moved"] == "crit.cuda()"


@pytest.mark.parametrize(
    "text",
    [
        "crit = nn.CrossEntropyLoss(weight=w).cuda()\ncrit(out, y)",
        "crit = nn.CrossEntropyLoss(weight=w.cuda())\ncrit(out, y)",
        "crit = nn.CrossEntropyLoss(weight=w)\ncrit.to('cuda')\ncrit(out, y)",
        "crit = nn.CrossEntropyLoss(weight=w)\ncrit(out.cpu(), y.cpu())",
        "crit = nn.CrossEntropyLoss()\ncrit(out, y)",
        "crit = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))\ncrit(out, y)",
    ],
)
def test_class_weights_that_may_lie_there(text: str) -> None:
    assert "tensor-created-on-cpu" not in linted(LOSS + text)


TYPED = """
import torch
out = torch.rand(4, 4, device="cuda")
kind = torch.cuda.FloatTensor if out.is_cuda else torch.FloatTensor
"""


@pytest.mark.parametrize("kind", ["kind", "torch.cuda.FloatTensor", "'torch.cuda.FloatTensor'"])
def test_a_tensor_type_is_a_place(kind: str) -> None:
    assert linted(f"{TYPED}grid = torch.linspace(0, 1, 4).type({kind})\nprint(out + grid)") == []


def test_a_dtype_is_no_place() -> None:
    assert "tensor-created-on-cpu" in linted(f"{TYPED}grid = torch.linspace(0, 1, 4).type(torch.float16)\nprint(out + grid)")
