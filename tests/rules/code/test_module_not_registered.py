# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import linted, slugs
from parts.programs import HEAD, NET, START


@pytest.mark.parametrize(
    "text",
    [
        '  File "net.py", line 12, in forward\n'
        "    x = self.layers[i](x)\n"
        '  File "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", line 114, in forward\n'
        "    return F.linear(input, self.weight, self.bias)\n"
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cpu "
        "and cuda:0! (when checking argument for argument mat1 in method wrapper_CUDA_addmm)",
        "ValueError: optimizer got an empty parameter list",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "module-not-registered"


@pytest.mark.parametrize(
    "text",
    [
        START + NET + """\
        self.layers = [nn.Linear(4, 4) for _ in range(3)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        START + NET + """\
        self.layers = []
        for _ in range(3):
            self.layers.append(nn.Linear(4, 4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        START + NET + """\
        self.heads = {"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)}

    def forward(self, x):
        return self.heads["a"](x)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "module-not-registered" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        START + NET + """\
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        START + NET + """\
        layers = [nn.Linear(4, 4) for _ in range(3)]
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return self.body(x)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        START + NET + """\
        self.sizes = [4, 4]

    def forward(self, x):
        return self.fc(x)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        START + NET + """\
        self.acts = [nn.ReLU(), nn.GELU()]

    def forward(self, x):
        return self.acts[0](x)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
        START + NET + """\
        self.layers = [nn.Linear(4, 4)]
        for i, l in enumerate(self.layers):
            self.add_module(str(i), l)

    def forward(self, x):
        return self.layers[0](x)

net = Net().to(device)
net(torch.ones(2, 4, device=device))
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "module-not-registered" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + """
class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4) for _ in range(3)]
    def forward(self, x):
        for l in self.layers:
            x = l(x)
        return x
""",
        HEAD
        + """
class A(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.blocks = []
        for s in sizes:
            self.blocks.append(nn.Linear(s, s))
    def forward(self, x):
        for b in self.blocks:
            x = b(x)
        return x
A([1, 2]).to(device)
""",
        HEAD
        + """
class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = {"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)}
    def forward(self, x, task):
        return self.heads[task](x)
""",
        HEAD
        + """
class A(nn.Module):
    def __init__(self):
        super().__init__()
        convs = []
        for i in range(3):
            convs.append(nn.Conv2d(3, 3, 3))
        self.convs = convs
    def forward(self, x):
        return sum(c(x) for c in self.convs)
""",
        HEAD
        + """
class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = (nn.Linear(4, 4), nn.Linear(4, 4))
    def forward(self, x):
        a, b = self.pair
        return b(a(x))
""",
        HEAD
        + """
import pytorch_lightning as pl
class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.experts = [Net() for _ in range(4)]
    def training_step(self, batch, i):
        x, y = batch
        return sum(F.cross_entropy(e(x), y) for e in self.experts)
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "module-not-registered" in linted(text)


def test_modules_put_into_a_dict() -> None:
    scalars = "--> 113         self.correct += torch.sum(preds == target)\n\nRuntimeError: Trying to pass too many CPU scalars to CUDA kernel!"
    assert slugs(scalars, "22:        self.metrics = {}\n23:        self.metrics['accuracy'] = Accuracy()")[0] == "module-not-registered"
    assert slugs(scalars)[0] != "module-not-registered"
    assert slugs(scalars, "22:        self.log = {}\n23:        self.log['accuracy'] = float(correct)")[0] != "module-not-registered"
