import pytest
from asking import lint, linted, slugs
from parts.programs import HEAD, MODEL, START, TRAINED


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
        START + MODEL + """\
model(torch.ones(2, 4, device=device)).mean().backward()
model.eval()
for x in DataLoader(list(range(9)), 2):
    print(model(x.to(device)).argmax())
""",
        START + MODEL + """\
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
        START + MODEL + """\
model.eval()
with torch.no_grad():
    for x in DataLoader(list(range(9)), 2):
        print(model(x.to(device)).argmax())
""",
        START + MODEL + """\
@torch.inference_mode()
def evaluate(net, loader):
    net.eval()
    for x, y in loader:
        print(net(x.to(device)))

evaluate(model, DataLoader([], 2))
""",
        START + MODEL + """\
model.eval()
for x in DataLoader(list(range(9)), 2):
    x = x.to(device).requires_grad_(True)
    grad = torch.autograd.grad(model(x).sum(), x)
""",
        START + MODEL + """\
model.eval()  # frozen statistics, yet trained
for x in DataLoader(list(range(9)), 2):
    model(x.to(device)).mean().backward()
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "oom-eval-with-grad" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        TRAINED
        + """
def train():
    model.train()
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
def evaluate():
    model.eval()
    total = 0
    for x, y in DataLoader(val_set, 32):
        total += (model(x.to(device)).argmax(1).cpu() == y).sum().item()
    return total
train()
evaluate()
""",
        TRAINED
        + """
def validate(net, data):
    net.eval()
    losses = []
    for batch in tqdm(data):
        x, y = batch[0].to(device), batch[1].to(device)
        losses.append(criterion(net(x), y).item())
    net.train()
    return sum(losses) / len(losses)
for epoch in range(3):
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    validate(model, DataLoader(val_set, 32))
""",
        HEAD
        + """
class Trainer:
    def __init__(self, model, train, val):
        self.model = model.to(device)
        self.train_loader, self.val_loader = train, val
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def fit(self):
        self.model.train()
        for x, y in self.train_loader:
            self.opt.zero_grad()
            loss = F.cross_entropy(self.model(x.to(device)), y.to(device))
            loss.backward()
            self.opt.step()
        self.validate()
    def validate(self):
        self.model.eval()
        correct = 0
        for x, y in self.val_loader:
            logits = self.model(x.to(device))
            correct += (logits.argmax(-1) == y.to(device)).sum().item()
        return correct
Trainer(Net(), DataLoader(dataset, 32, num_workers=2), DataLoader(val_set, 32)).fit()
""",
        TRAINED
        + """
for epoch in range(10):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    model.eval()
    val_loss = 0.0
    for x, y in DataLoader(val_set, 64):
        x, y = x.to(device), y.to(device)
        val_loss += criterion(model(x), y).item()
    print(epoch, val_loss)
""",
        TRAINED
        + """
def step(x, y):
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
for phase in ["train"]:
    for x, y in loader:
        step(x.to(device), y.to(device))
model = model.eval()
hits = [(model(x.to(device)).argmax(1) == y.to(device)).float().mean().item() for x, y in DataLoader(val_set, 32)]
it = iter(DataLoader(val_set, 8))
while True:
    x, y = next(it)
    print(model(x.to(device)).argmax(1).tolist())
""",
        TRAINED
        + """
model.train(True)
for x, y in loader:
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
model.train(False)
preds = []
for i, (x, _) in enumerate(DataLoader(val_set, 16)):
    preds += model(x.to(device)).argmax(1).cpu().tolist()
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "oom-eval-with-grad" in linted(text)


TRAINS = TRAINED + """
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x.to(device)), y.to(device)).backward()
    optimizer.step()
"""
CHECKS = """
def NAME(data):
    hits = 0
    for x, y in data:
        hits += (model(x.to(device)).argmax(1).cpu() == y).sum()
    return hits
"""


@pytest.mark.parametrize("name", ["validate", "evaluate_model", "val_epoch", "test"])
def test_found_by_the_name_of_the_function(name: str) -> None:
    report = lint(TRAINS + CHECKS.replace("NAME", name) + f"{name}(DataLoader(val_set, 8))\n")
    (finding,) = [f for f in report.findings if f.slug == "oom-eval-with-grad"]
    assert finding.values["function"] == name
    assert not finding.edits


@pytest.mark.parametrize(
    "text",
    [
        TRAINS + "@torch.no_grad()\n" + CHECKS.replace("NAME", "validate") + "validate(DataLoader(val_set, 8))\n",
        TRAINS + CHECKS.replace("NAME", "validate") + "with torch.no_grad():\n    validate(DataLoader(val_set, 8))\n",
        TRAINS + CHECKS.replace("NAME", "validate"),  # who calls it may switch them off
        TRAINS + CHECKS.replace("NAME", "collect") + "collect(DataLoader(val_set, 8))\n",
        TRAINED + CHECKS.replace("NAME", "validate") + "validate(DataLoader(val_set, 8))\n",  # nothing is trained here
        "import pytest\n" + TRAINS + CHECKS.replace("NAME", "test_model") + "test_model(DataLoader(val_set, 8))\n",
    ],
)
def test_a_name_alone_is_not_enough(text: str) -> None:
    assert "oom-eval-with-grad" not in linted(text)


GIVEN = """\
import torch


def train(model, criterion, loader, optimizer):
    model.train()
    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(net, criterion, loader):
    net.eval()
    total = 0
    for x, y in loader:
        total += criterion(net(x.cuda()), y.cuda()).item()
    return total
"""
FULL = "RuntimeError: CUDA out of memory."


def test_a_function_that_evaluates_what_it_is_given_where_memory_ran_out_in_it() -> None:
    line = "    total += criterion(net(x.cuda()), y.cuda()).item()\n"
    frames = f'Traceback (most recent call last):\n  File "train.py", line 17, in evaluate\n{line}'
    assert slugs(frames + FULL, GIVEN) == ["oom-eval-with-grad"]
    assert slugs("Valid epoch 1:   9%| 1/11 " + FULL, GIVEN) == ["oom-eval-with-grad"]
    free = GIVEN.replace("def evaluate", "@torch.no_grad()\ndef evaluate")
    assert slugs("Valid epoch 1:   9%| 1/11 " + FULL, free) != ["oom-eval-with-grad"]
    assert "oom-eval-with-grad" not in slugs(frames.replace("evaluate", "train") + FULL, GIVEN)
    assert linted(GIVEN) == []  # its caller may have switched them off
