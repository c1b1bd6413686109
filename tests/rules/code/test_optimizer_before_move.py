# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import linted, slugs
from parts.programs import HEAD, MODEL, START


@pytest.mark.parametrize(
    "text",
    [
        '  File "train.py", line 90, in <module>\n'
        "    optimizer.step()\n"
        '  File "/x/site-packages/torch/optim/adam.py", line 110, in step\n'
        "    exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)\n"
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cpu!",
        "RuntimeError: Tensors of the same index must be on the same device and the same dtype except `step` "
        "tensors that can be CPU and float32/64 notwithstanding",
        "AssertionError: If capturable=False, state_steps should not be CUDA tensors.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "optimizer-before-move"


def test_shown_devices() -> None:
    """The printed device of the state decides where no exception is shown."""
    shown = "state device before setup: cpu\nfabric device: cuda:0\nstate device after setup: cpu\n"
    assert slugs(shown)[0] == "optimizer-before-move"
    assert "optimizer-before-move" not in slugs("state device before setup: cuda:0\nfabric device: cuda:0\n")


@pytest.mark.parametrize(
    "text",
    [
        START + """\
model = nn.Linear(4, 2)
opt = torch.optim.Adagrad(model.parameters())
model.to(device)
""",
        START + """\
model = nn.Linear(4, 2)
opt = torch.optim.Adam(model.parameters())
opt.load_state_dict(torch.load("a.pt"))
model.cuda()
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "optimizer-before-move" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        START + """\
model = nn.Linear(4, 2)
opt = torch.optim.Adam(model.parameters())
model.to(device)
""",
        START + MODEL + """\
opt.load_state_dict(torch.load("a.pt"))
""",
        START + """\
model = nn.Linear(4, 2).to(device)
opt = torch.optim.Adagrad(model.parameters())
""",
        "from accelerate import Accelerator\n" + START + """\
model = nn.Linear(4, 2)
opt = torch.optim.Adagrad(model.parameters())
model, opt = Accelerator().prepare(model, opt)
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "optimizer-before-move" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + """
model = Net()
opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
model.to(device)
""",
        HEAD
        + """
model = Net()
opt = torch.optim.Adam(model.parameters())
ckpt = torch.load("c.pt", map_location="cpu")
model.load_state_dict(ckpt["model"])
opt.load_state_dict(ckpt["opt"])
model.cuda()
""",
        HEAD
        + """
def main():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    state = torch.load("c.pt", map_location="cpu")
    optimizer.load_state_dict(state["optimizer"])
    net = net.to(device)
    for x, y in DataLoader(dataset, 32, num_workers=2):
        loss = F.cross_entropy(net(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
main()
""",
        HEAD
        + """
class Trainer:
    def __init__(self):
        self.model = Net()
        self.opt = torch.optim.AdamW(self.model.parameters())
    def resume(self, path):
        ckpt = torch.load(path, map_location="cpu")
        self.model.load_state_dict(ckpt["model"])
        self.opt.load_state_dict(ckpt["opt"])
    def fit(self):
        self.model.to("cuda")
        for x, y in DataLoader(dataset, 32, num_workers=2):
            loss = F.cross_entropy(self.model(x.to("cuda")), y.to("cuda"))
            loss.backward()
            self.opt.step()
t = Trainer()
t.resume("c.pt")
t.fit()
""",
        HEAD
        + """
from torch.optim import Adagrad
net = Net()
opt = Adagrad([{"params": net.fc.parameters()}], lr=0.1)
net = net.cuda()
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "optimizer-before-move" in linted(text)


MIXED = "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cpu!"


def test_the_step_of_another_packages_optimizer() -> None:
    step = '  File "run.py", line 3, in <module>\n    main()\n  File "/v/lib/python3.10/dist-packages/pytorch_optimizer/optimizer/prodigy.py", line 164, in step\n    d.add_(s.sum())\n'
    assert slugs(step + MIXED)[0] == "optimizer-before-move"
    closure = step.replace("pytorch_optimizer/optimizer/prodigy.py", "lightning/pytorch/core/optimizer.py") + '  File "net.py", line 9, in training_step\n    loss = self(x)\n'
    assert slugs(closure + MIXED)[0] != "optimizer-before-move"
