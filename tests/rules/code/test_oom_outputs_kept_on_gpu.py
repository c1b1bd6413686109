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


FULL = (
    "RuntimeError: CUDA out of memory. Tried to allocate 938.00 MiB (GPU 0; 23.70 GiB total capacity; 21.98 GiB already allocated; "
    "315.56 MiB free; 21.99 GiB reserved in total by PyTorch)"
)
LIGHTNING = """\
import pytorch_lightning as pl
import torch
import torch.nn.functional as F


class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(64, 64)
        self.kept = []

    def training_step(self, batch, batch_idx):
        x, y = batch
        out = self.net(x)
        loss = F.mse_loss(out, y)
        return {"loss": loss, "out": out.detach()}

    def validation_step(self, batch, batch_idx):
        x, y = batch
        out = self.net(x)
        self.log("val", F.mse_loss(out, y))
        return out

"""
KEPT = LIGHTNING.replace("        return out\n", "        self.kept.append(out)\n")
HOOK = "    def training_epoch_end(self, outputs):\n        "


@pytest.mark.parametrize(
    "text",
    [
        LIGHTNING + HOOK + "pass\n",
        LIGHTNING + HOOK + '"""Nothing yet."""\n',
        LIGHTNING + "    def validation_epoch_end(self, outputs):\n        print('done')\n",
        KEPT,
    ],
)
def test_lightning_modules_that_keep_what_their_steps_give(text: str) -> None:
    assert linted(text) == ["oom-outputs-kept-on-gpu"]
    assert slugs(text, FULL) == ["oom-outputs-kept-on-gpu"]


def test_a_hook_that_uses_the_outputs_is_a_fault_where_memory_ran_out() -> None:
    text = LIGHTNING + HOOK + "self.all = torch.cat([o['out'] for o in outputs])\n"
    assert linted(text) == []
    assert slugs(text, FULL) == ["oom-outputs-kept-on-gpu"]


@pytest.mark.parametrize(
    "text",
    [
        LIGHTNING,  # no hook: Lightning keeps the loss alone
        LIGHTNING.replace('"out": out.detach()', '"out": out.detach().cpu()') + HOOK + "pass\n",
        LIGHTNING.replace('{"loss": loss, "out": out.detach()}', '{"loss": loss, "mean": out.mean()}') + HOOK + "pass\n",
        LIGHTNING.replace('{"loss": loss, "out": out.detach()}', "loss") + HOOK + "pass\n",
        LIGHTNING.replace("        return out\n", "        self.kept.append(out.cpu())\n"),
        KEPT + "    def on_validation_epoch_end(self):\n        self.kept.clear()\n",
        KEPT + "    def on_validation_epoch_end(self):\n        self.kept = []\n",
        KEPT.replace("        self.kept.append(out)\n", "        if batch_idx < 4:\n            self.kept.append(out)\n"),
    ],
)
def test_lightning_modules_that_keep_little(text: str) -> None:
    assert linted(text) == []
