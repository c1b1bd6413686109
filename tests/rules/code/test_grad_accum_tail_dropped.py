import pytest
from asking import linted, slugs
from parts.dryruns import LOSS, STEP
from parts.dryruns import slugs as run_slugs
from parts.programs import HEAD, MODEL, START, TRAINED


@pytest.mark.parametrize(
    "text",
    [
        "len(train_loader) = 250\n"
        "accumulation_steps = 16\n"
        "if (step + 1) % accumulation_steps == 0:\n"
        "    optimizer.step()",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "grad-accum-tail-dropped"


@pytest.mark.parametrize(
    "text",
    [
        "len(train_loader) = 256\n"
        "accumulation_steps = 16\n"
        "if (step + 1) % accumulation_steps == 0:\n"
        "    optimizer.step()",
    ],
)
def test_neighbours(text: str) -> None:
    assert "grad-accum-tail-dropped" not in slugs(text)


@pytest.mark.parametrize(("dropped", "every", "found"), [(1, 3, True), (0, 3, False), (None, 3, False), (1, 1, False)])
def test_a_dry_run_that_reached_the_end(dropped: int | None, every: int, found: bool) -> None:
    windows = [{"backwards": every, "scaled": True, "backward_place": LOSS, "step_place": STEP}]
    told = {"windows": windows, "every": every, "dropped": dropped, "scaled": True, "loader_batches": 7}
    assert run_slugs(outcome="finished", accumulation=told) == (["grad-accum-tail-dropped"] if found else [])


@pytest.mark.parametrize(
    "text",
    [
        START + MODEL + """\
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device)) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
        START + MODEL + """\
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device)) / n
    loss.backward()
    if not (i + 1) % n:
        opt.step()
        opt.zero_grad()
""",
        START + MODEL + """\
for epoch in range(3):
    for i, (x, y) in enumerate(DataLoader([], 2)):
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        if i % args.accum == args.accum - 1:
            opt.step()
            opt.zero_grad()

""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "grad-accum-tail-dropped" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        START + MODEL + """\
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device)) / 4
    loss.backward()
    if (i + 1) % 4 == 0 or i + 1 == len(loader):
        opt.step()
        opt.zero_grad()
""",
        START + MODEL + """\
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device)) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
opt.step()
""",
        START + MODEL + """\
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device)) / 4
    loss.backward()
    if i > 0:
        opt.step()
        opt.zero_grad()
""",
        START + MODEL + """\
for step in range(100):
    for micro in range(4):
        (model(torch.ones(2, 4, device=device)).mean() / 4).backward()
    opt.step()
""",
        "from accelerate import Accelerator\n" + START + """\
accelerator = Accelerator(gradient_accumulation_steps=4)
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "grad-accum-tail-dropped" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        TRAINED
        + """
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x.to(device)), y.to(device)) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
        TRAINED
        + """
def train(accum):
    model.train()
    for step, batch in enumerate(tqdm(loader), start=1):
        x, y = batch
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        (loss / accum).backward()
        if step % accum == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
train(8)
""",
        HEAD
        + """
class Trainer:
    def __init__(self, model, every=4):
        self.model, self.every = model.to(device), every
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def fit(self, loader):
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(self.model(x.to(device)), y.to(device))
            loss = loss / self.every
            loss.backward()
            if not (i + 1) % self.every:
                self.opt.step()
                self.opt.zero_grad()
Trainer(Net()).fit(DataLoader(dataset, 32, num_workers=2))
""",
        TRAINED
        + """
scaler = torch.amp.GradScaler("cuda")
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda"):
            loss = criterion(model(x.to(device)), y.to(device)) / 4
        scaler.scale(loss).backward()
        if (i + 1) % 4 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
""",
        TRAINED
        + """
config = {"accum": 4}
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x.to(device)), y.to(device))
    loss = loss * (1 / config["accum"])
    loss.backward()
    if (i + 1) % config["accum"] != 0:
        continue
    optimizer.step()
    optimizer.zero_grad()
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "grad-accum-tail-dropped" in linted(text)


COUNTED = START + MODEL + """\
loader = DataLoader([], 2)
for epoch in range(3):
    pending = 0
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device)) / n
        loss.backward()
        pending += 1
        if pending == n:
            opt.step()
            opt.zero_grad()
            pending = 0
"""

METHOD = HEAD + """\
class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model.to(device), loader
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def epoch(self):
        self.opt.zero_grad()
        self.count = 0
        for x, y in self.loader:
            (F.cross_entropy(self.model(x.to(device)), y.to(device)) / 8).backward()
            self.count += 1
            if self.count >= 8:
                self.opt.step()
                self.opt.zero_grad()
                self.count = 0


trainer = Trainer(Net(), DataLoader(dataset, 4))
for epoch in range(9):
    trainer.epoch()
"""


@pytest.mark.parametrize("text", [COUNTED, COUNTED.replace("== n", ">= n"), METHOD])
def test_a_counter_that_begins_anew_with_each_epoch(text: str) -> None:
    assert linted(text) == ["grad-accum-tail-dropped"]


@pytest.mark.parametrize(
    "text",
    [
        COUNTED.replace("for epoch in range(3):\n    pending = 0", "pending = 0\nfor epoch in range(3):"),  # it runs on
        COUNTED + "    if pending:\n        opt.step()\n        opt.zero_grad()\n",
        COUNTED.replace("pending == n", "pending == n or last"),
        METHOD.replace("        self.count = 0\n        for", "        for"),
        METHOD + "    trainer.opt.step()\n",
    ],
)
def test_a_counter_that_runs_on_or_whose_rest_is_stepped(text: str) -> None:
    assert "grad-accum-tail-dropped" not in linted(text)


ANNOUNCED = """\
  Num examples = {}
  Num Epochs = 3
  Total train batch size (w. parallel, distributed & accumulation) = 64
  Gradient Accumulation steps = 8
  Total optimization steps = {}
"""


@pytest.mark.parametrize(("examples", "steps", "found"), [(48, 0, True), (48, 3, False), (64, 3, False), (640, 30, False)])
def test_an_epoch_that_is_shorter_than_one_group(examples: int, steps: int, found: bool) -> None:
    assert ("grad-accum-tail-dropped" in slugs(ANNOUNCED.format(examples, steps))) == found


def test_told_in_chinese() -> None:
    assert "grad-accum-tail-dropped" in slugs("grad_accum=4，尾批 backward() 了但永不 step，梯度被丢")
    assert not slugs("grad_accum=4，尾批也会 step")
