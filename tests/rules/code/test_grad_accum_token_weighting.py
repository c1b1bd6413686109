import pytest
from asking import linted, slugs
from parts.programs import HEAD, TRAINED


@pytest.mark.parametrize(
    "text",
    [
        "gradient accumulation: the loss is not equivalent to the full batch when sequences have a different "
        "number of tokens; num_items_in_batch",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "grad-accum-token-weighting"


@pytest.mark.parametrize(
    "text",
    [
        TRAINED
        + """
PAD = 0
for i, (ids, targets) in enumerate(loader):
    logits = model(ids.to(device))
    loss = F.cross_entropy(logits.view(-1, 100), targets.to(device).view(-1), ignore_index=PAD) / 4
    loss.backward()
    if (i + 1) % 4 == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
""",
        TRAINED
        + """
crit = nn.CrossEntropyLoss(ignore_index=tokenizer.pad_token_id)
def train(accum):
    for step, (ids, targets) in enumerate(loader, 1):
        loss = crit(model(ids.to(device)).flatten(0, 1), targets.to(device).flatten())
        (loss / accum).backward()
        if step % accum == 0 or step == len(loader):
            optimizer.step()
            optimizer.zero_grad()
train(8)
""",
        HEAD
        + """
class Trainer:
    def __init__(self, model, vocab):
        self.model = model.to(device)
        self.opt = torch.optim.AdamW(self.model.parameters())
        self.loss = nn.CrossEntropyLoss(ignore_index=vocab["<pad>"])
    def fit(self, loader, accum=4):
        for i, (src, tgt) in enumerate(loader):
            loss = self.loss(self.model(src.to(device)).transpose(1, 2), tgt.to(device))
            loss = loss / accum
            loss.backward()
            if (i + 1) % accum == 0 or i + 1 == len(loader):
                self.opt.step()
                self.opt.zero_grad()
Trainer(Net(), {"<pad>": 0}).fit(DataLoader(dataset, 32, num_workers=2))
""",
        TRAINED
        + """
scaler = torch.amp.GradScaler("cuda")
for i, (ids, targets) in enumerate(loader):
    with torch.autocast("cuda"):
        loss = F.nll_loss(F.log_softmax(model(ids.to(device)), -1).transpose(1, 2), targets.to(device), ignore_index=pad_id)
        loss = loss / 4
    scaler.scale(loss).backward()
    if (i + 1) % 4 == 0 or i + 1 == len(loader):
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "grad-accum-token-weighting" in linted(text)


MASKED_MEAN = HEAD + """
def step(model, optimizer, micro_batches):
    accum = len(micro_batches)
    optimizer.zero_grad()
    for ids, mask in micro_batches:
        ids, mask = ids.to(device), mask.to(device)
        ce = F.cross_entropy(model(ids), ids, reduction="none")
        loss = (ce * mask).sum() / mask.sum()
        (loss / accum).backward()
    optimizer.step()


model = Net().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(10):
    step(model, optimizer, [(torch.ones(8, 64), torch.ones(8)) for _ in range(4)])
"""


@pytest.mark.parametrize("own", ["mask.sum()", "mask.sum().clamp(min=1)", "(mask.sum() + 1e-8)", "torch.sum(mask)"])
def test_the_mean_over_the_tokens_of_one_micro_batch(own: str) -> None:
    assert "grad-accum-token-weighting" in linted(MASKED_MEAN.replace("mask.sum()", own))


def test_the_sum_over_all_tokens() -> None:
    whole = MASKED_MEAN.replace("accum = len(micro_batches)", "every = sum(m.sum() for _, m in micro_batches)")
    whole = whole.replace("/ mask.sum()", "/ every").replace("(loss / accum)", "loss")
    assert "grad-accum-token-weighting" not in linted(whole)
