# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import linted, slugs
from parts.programs import HEAD, START, TRAINED


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
        START + """\
model = nn.DataParallel(nn.Linear(4, 2).cuda())
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    loss = model(torch.ones(8, 4).cuda()).mean()
    loss.backward()
    opt.step()
""",
        START + """\
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
        START + """\
model = nn.DataParallel(nn.Linear(4, 2).cuda(), device_ids=[0])
for step in range(9):
    model(torch.ones(8, 4).cuda()).mean().backward()
""",
        START + """\
model = nn.Linear(4, 2).to(device)
if torch.cuda.device_count() > args.least:
    model = nn.DataParallel(model, device_ids=args.gpus)
for step in range(9):
    model(torch.ones(8, 4).to(device)).mean().backward()
""",
        START + """\
model = nn.DataParallel(nn.Linear(4, 2).cuda())
with torch.no_grad():
    print(model(torch.ones(8, 4).cuda()).shape)
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "dataparallel-imbalance" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        TRAINED
        + """
model = nn.DataParallel(model)
for x, y in loader:
    loss = criterion(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        TRAINED
        + """
net = torch.nn.DataParallel(Net().cuda(), device_ids=[0, 1, 2, 3])
def train(net):
    for x, y in tqdm(loader):
        loss = criterion(net(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
train(net)
""",
        TRAINED
        + """
if torch.cuda.device_count() > 1:
    model = nn.DataParallel(model)
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        out = model(x.to(device))
        loss = criterion(out, y.to(device))
        loss.backward()
        optimizer.step()
""",
        HEAD
        + """
class Trainer:
    def __init__(self):
        self.model = nn.DataParallel(Net()).to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(dataset, 32, num_workers=2)
    def fit(self):
        for x, y in self.loader:
            self.opt.zero_grad()
            loss = F.cross_entropy(self.model(x.to(device)), y.to(device))
            loss.backward()
            self.opt.step()
Trainer().fit()
""",
        HEAD
        + """
def build():
    net = Net()
    net = nn.DataParallel(net)
    return net.to(device)
def main():
    net = build()
    opt = torch.optim.Adam(net.parameters())
    loader = DataLoader(dataset, 32, num_workers=2)
    for x, y in loader:
        opt.zero_grad()
        F.cross_entropy(net(x.to(device)), y.to(device)).backward()
        opt.step()
if __name__ == "__main__":
    main()
""",
        TRAINED
        + """
from torch.nn.parallel import DataParallel
model = DataParallel(model)
it = iter(loader)
step = 0
while step < 1000:
    x, y = next(it)
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    step += 1
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "dataparallel-imbalance" in linted(text)


CARD = "|   {n}  Tesla P40           Off  | 0000{d}:00:00.0 Off |                    0 |\n| N/A   43C    P0    61W / 250W |  {m}MiB / 22919MiB |     {u}%      Default |\n"


@pytest.mark.parametrize(
    ("memory", "use", "found"), [((11151, 5979, 5979), 99, True), ((11151, 5979), 99, False), ((11151, 5979, 1200), 99, False), ((11151, 5979, 5979), 0, False), ((6400, 5979, 5979), 99, False)]
)
def test_the_first_card_fuller_than_the_others_that_are_alike(memory: tuple[int, ...], use: int, found: bool) -> None:
    table = "| NVIDIA-SMI 410.78       Driver Version: 410.78       CUDA Version: 10.0     |\n" + "".join(CARD.format(n=n, d=f"{0x275 + n:04X}", m=m, u=use) for n, m in enumerate(memory))
    assert ("dataparallel-imbalance" in slugs(table)) == found


def test_rows_that_were_cut_out_of_the_table() -> None:
    row = "| N/A   46C    P0   103W / 350W |  {}MiB / 32510MiB\n"
    rows = row.format(29200) + row.format(11244) * 2
    assert slugs(rows, "train.py --parallel (nn.DataParallel)") == ["dataparallel-imbalance"]
    assert slugs(rows) == []
    assert slugs(row.format(11300) + row.format(11244), "train.py --parallel (nn.DataParallel)") == []
