import pytest
from asking import linted, slugs
from parts.dryruns import LOSS, STEP
from parts.dryruns import slugs as run_slugs
from parts.programs import HEAD, MODEL, START, TRAINED


@pytest.mark.parametrize(
    "text",
    [
        "gradient_accumulation_steps=1 loss 2.11\n"
        "gradient_accumulation_steps=4 loss 8.45\n",
        "bs  accum steps  loss\n"
        "8    1    2.1\n"
        "4    2    4.2\n"
        "2    4    8.4\n",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "grad-accum-unscaled"


@pytest.mark.parametrize(
    "text",
    [
        "gradient_accumulation_steps=1 loss 2.11\n"
        "gradient_accumulation_steps=4 loss 2.12\n",
    ],
)
def test_neighbours(text: str) -> None:
    assert "grad-accum-unscaled" not in slugs(text)


@pytest.mark.parametrize(("scaled", "backwards", "found"), [(False, 4, True), (True, 4, False), (None, 4, False), (False, 1, False)])
def test_a_dry_run_of_windows(scaled: bool | None, backwards: int, found: bool) -> None:
    windows = [{"backwards": backwards, "scaled": scaled, "backward_place": LOSS, "step_place": STEP}]
    told = {"windows": windows, "every": backwards, "scaled": scaled}
    assert run_slugs(accumulation=told) == (["grad-accum-unscaled"] if found else [])


@pytest.mark.parametrize(
    "text",
    [
        START + MODEL + """\
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
        START + MODEL + """\
criterion = nn.MSELoss()
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "grad-accum-unscaled" in linted(text)


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
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device)) * 0.25
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
        START + MODEL + """\
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device), reduction="sum")
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
        START + MODEL + """\
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss = loss / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
        START + MODEL + """\
for i, (x, y) in enumerate(DataLoader([], 2)):
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    if (i + 1) % 4 == 0:
        for p in model.parameters():
            p.grad.div_(4)
        opt.step()
        opt.zero_grad()
""",
        START + MODEL + """\
for i, (x, y) in enumerate(DataLoader([], 2)):
    model(x.to(device)).mean().backward()
    opt.step()
    if i % 4 == 0:
        print(i)
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "grad-accum-unscaled" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        TRAINED
        + """
accum = 8
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    if (i + 1) % accum == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
""",
        TRAINED
        + """
def train(args):
    for epoch in range(args.epochs):
        for step, batch in enumerate(tqdm(loader), start=1):
            x, y = (t.to(device) for t in batch)
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            if step % args.accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
""",
        HEAD
        + """
class Trainer:
    def __init__(self, model, every=4):
        self.model, self.every = model.to(device), every
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loss = nn.MSELoss()
    def fit(self, loader):
        for i, (x, y) in enumerate(loader):
            loss = self.loss(self.model(x.to(device)), y.to(device))
            loss.backward()
            if (i + 1) % self.every == 0:
                self.opt.step()
                self.opt.zero_grad()
Trainer(Net()).fit(DataLoader(dataset, 32, num_workers=2))
""",
        TRAINED
        + """
scaler = torch.amp.GradScaler("cuda")
ACC = 4
for i, (x, y) in enumerate(loader):
    with torch.autocast("cuda"):
        loss = criterion(model(x.to(device)), y.to(device))
    scaler.scale(loss).backward()
    if (i + 1) % ACC == 0:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
""",
        TRAINED
        + """
config = {"accum": 4}
n = 0
for x, y in loader:
    n += 1
    loss = F.binary_cross_entropy_with_logits(model(x.to(device)), y.to(device))
    loss.backward()
    if n % config["accum"]:
        continue
    optimizer.step()
    optimizer.zero_grad()
""",
        TRAINED
        + """
for i, (x, y) in enumerate(loader):
    if i % 4 == 0 and i > 0:
        optimizer.step()
        optimizer.zero_grad()
    loss = (model(x.to(device)) - y.to(device)).pow(2).mean()
    loss.backward()
optimizer.step()
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "grad-accum-unscaled" in linted(text)


SUM = TRAINED + """
config = {"gradient_accumulation_steps": 8}
steps = config["gradient_accumulation_steps"]
for i, x in enumerate([torch.ones(8, 64) for _ in range(80)]):
    out = model(x.to(device))
    loss = out.pow(2).mean() + 1e-3 * out.abs().mean()
    loss.backward()
    if (i + 1) % steps == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_a_weight_before_one_term_divides_nothing() -> None:
    assert linted(SUM) == ["grad-accum-unscaled"]


@pytest.mark.parametrize("loss", ["({} + {}) / steps", "{} / steps + {} / steps"])
def test_a_sum_that_is_divided(loss: str) -> None:
    terms = ("out.pow(2).mean()", "1e-3 * out.abs().mean()")
    assert linted(SUM.replace(" + ".join(terms), loss.format(*terms))) == []


def test_a_condition_that_does_not_speak_of_accumulation() -> None:
    assert linted(SUM.replace("gradient_accumulation_steps", "every")) == []
