# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import lint, linted

HEAD = """\
import torch, torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torch.nn.parallel import DistributedDataParallel as DDP
from tqdm import tqdm
"""
STEP = """\
            loss = model(x.cuda()).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
"""
MAIN = (
    HEAD
    + """\
def main(args, local_rank):
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=2)
    model = DDP(nn.Linear(2, 2).cuda(local_rank))
    opt = torch.optim.SGD(model.parameters(), lr=1)
    for epoch in range(args.epochs):
        for x, y in tqdm(loader):  # batches
"""
    + STEP
)
OTHER_FUNCTION = (
    HEAD
    + """\
def loaders(dataset):
    return DataLoader(dataset, sampler=torch.utils.data.DistributedSampler(dataset, shuffle=True))
def train(model, opt, loader):
    if True:
        for i, (x, y) in enumerate(loader):
"""
    + STEP
    + """\
loader = loaders(data)
model = DDP(nn.Linear(2, 2).cuda(local_rank))
opt = torch.optim.SGD(model.parameters(), lr=1)
epoch = 0
while epoch < 90:
    train(model, opt, loader)
    epoch += 1
"""
)
CLASS = (
    HEAD
    + """\
class Trainer:
    def __init__(self, model, data):
        self.model = DDP(model.cuda(local_rank))
        self.opt = torch.optim.SGD(self.model.parameters(), lr=1)
        self.loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data))
    def epoch(self, model, opt):
        if model:
            for x, y in self.loader:
                loss = model(x.cuda()).sum()
                loss.backward()
                opt.step()
    def fit(self):
        for epoch in range(10):
            self.epoch(self.model, self.opt)
Trainer(nn.Linear(2, 2), dataset).fit()
"""
)
PERHAPS = MAIN.replace("sampler = DistributedSampler(dataset)", "sampler = DistributedSampler(dataset) if args.world > 1 else None")


@pytest.mark.parametrize("text", [MAIN, OTHER_FUNCTION, CLASS, PERHAPS, MAIN.replace("tqdm(loader)", "loader")])
def test_found(text: str) -> None:
    assert linted(text) == ["sampler-without-set-epoch"]


def test_the_edit_tells_the_epoch() -> None:
    report = lint(MAIN)
    (edit,) = report.findings[0].edits
    assert (edit.line, edit.column, edit.text) == (13, 8, "loader.sampler.set_epoch(epoch)\n        ")
    lines = MAIN.split("\n")
    lines[12] = lines[12][:8] + edit.text + lines[12][8:]
    assert linted("\n".join(lines)) == []


@pytest.mark.parametrize("text", [PERHAPS, OTHER_FUNCTION, CLASS])
def test_no_edit_where_the_names_are_not_there(text: str) -> None:
    assert lint(text).findings[0].edits == ()


@pytest.mark.parametrize(
    "text",
    [
        MAIN.replace("        for x", "        sampler.set_epoch(epoch)\n        for x"),
        MAIN.replace("        for x", "        loader.sampler.set_epoch(epoch)\n        for x"),
        MAIN.replace("DistributedSampler(dataset)", "DistributedSampler(dataset, shuffle=False)"),
        MAIN.replace("DistributedSampler(dataset)", "DistributedSampler(dataset, world, rank, args.shuffle)"),
        MAIN.replace("DistributedSampler(dataset)", "torch.utils.data.RandomSampler(dataset)"),
        MAIN.replace("    for epoch in range(args.epochs):\n", "    if True:\n"),  # one pass
        MAIN.replace("            loss.backward()\n            opt.step()\n", ""),  # an evaluation
        MAIN.replace("    model = DDP(nn.Linear(2, 2).cuda(local_rank))\n", "    model = accelerate.Accelerator().prepare(nn.Linear(2, 2))\n").replace("import torch,", "import accelerate, torch,"),
        MAIN.replace("        for x", "        begin_epoch(sampler, epoch)\n        for x") + "def begin_epoch(sampler, epoch):\n    if hasattr(sampler, 'set_epoch'):\n        sampler.set_epoch(epoch)\n",
        HEAD + "sampler = DistributedSampler(dataset)\nloader = DataLoader(dataset, sampler=sampler)\nfor epoch in range(3):\n    train_one_epoch(model, loader)\n",
        MAIN.replace("from torch.utils.data.distributed", "from mine"),
        "import lightning as L\n" + MAIN + "L.Trainer(devices=2).fit(model)\n",
    ],
)
def test_neighbours(text: str) -> None:
    assert "sampler-without-set-epoch" not in linted(text)
