import pytest
from asking import linted, slugs
from parts.programs import HEAD, MODEL, START, TRAINED


@pytest.mark.parametrize(
    "text",
    [
        '  File "/x/transformers/trainer.py", line 2515, in evaluation_loop\n'
        "    preds_host = logits if preds_host is None else nested_concat(preds_host, logits, "
        "padding_index=-100)\n"
        "RuntimeError: CUDA out of memory.",
        "    feats.append(model(x))\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; "
        "9.71 GiB already allocated; 20.44 MiB free; 9.80 GiB reserved in total by PyTorch)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "oom-outputs-kept-on-gpu"


@pytest.mark.parametrize(
    "text",
    [
        START + MODEL + """\
outs = []
model.eval()
with torch.no_grad():
    for x, y in DataLoader([], 2):
        outs.append(model(x.to(device)))
""",
        START + MODEL + """\
@torch.no_grad()
def predict(net, loader):
    net.eval()
    found = []
    for batch in loader:
        out = net(batch.to(device))
        found.append(out.softmax(-1))
    return torch.cat(found)

predict(model, DataLoader([], 2))
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "oom-outputs-kept-on-gpu" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        START + MODEL + """\
outs = []
with torch.no_grad():
    for x, y in DataLoader([], 2):
        outs.append(model(x.to(device)).cpu())
""",
        START + MODEL + """\
outs = []
with torch.no_grad():
    for x, y in DataLoader([], 2):
        outs.append(model(x.to(device)).mean().item())
""",
        START + MODEL + """\
outs = []
with torch.no_grad():
    for x, y in DataLoader([], 2):
        outs.append(model(x.to(device)).mean())
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "oom-outputs-kept-on-gpu" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        TRAINED
        + """
outs = []
model.eval()
with torch.no_grad():
    for x, y in loader:
        outs.append(model(x.to(device)))
torch.cat(outs)
""",
        TRAINED
        + """
@torch.no_grad()
def predict(model, loader):
    model.eval()
    feats, labels = [], []
    for x, y in tqdm(loader):
        f = model(x.to(device, non_blocking=True))
        feats.append(f)
        labels.append(y)
    return torch.cat(feats), torch.cat(labels)
predict(model, loader)
""",
        TRAINED
        + """
logits = []
for i, batch in enumerate(loader):
    with torch.inference_mode():
        logits.append(model(batch[0].to(device)).softmax(-1))
""",
        HEAD
        + """
class Eval:
    def __init__(self):
        self.model = Net().cuda()
        self.preds = []
    def run(self, loader):
        with torch.no_grad():
            for x, y in loader:
                self.preds.append(self.model(x.cuda()))
Eval().run(DataLoader(dataset, 4))
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "oom-outputs-kept-on-gpu" in linted(text)
