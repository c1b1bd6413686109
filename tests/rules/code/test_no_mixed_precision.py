# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import found, lint, slugs
from parts import profiles
from parts.dryruns import answer
from parts.dryruns import notes as run_notes

from ongpu.model import Certainty


@pytest.mark.parametrize(
    "text",
    [
        "You are using a CUDA device ('NVIDIA A100-SXM4-40GB') that has Tensor Cores. To properly utilize "
        "them, you should set `torch.set_float32_matmul_precision('medium' | 'high')` which will trade-off "
        "precision for performance.",
        "UserWarning: TensorFloat32 tensor cores for float32 matrix multiplication available but not "
        "enabled. Consider setting `torch.set_float32_matmul_precision('high')` for better performance.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "no-mixed-precision"


def test_a_trace_of_float32_products() -> None:
    finding = found("no-mixed-precision", profiles.text(profiles.kineto(names=(profiles.SGEMM, profiles.ELEMENTWISE))))
    assert finding
    assert (finding.variant, finding.values["share"], finding.values["cores"]) == ("trace", "50", "0")
    assert finding.certainty is Certainty.LIKELY


def test_tensor_cores_in_use_are_fine_in_a_trace() -> None:
    assert found("no-mixed-precision", profiles.text(profiles.kineto())) is None


def test_a_card_without_tensor_cores_has_none_to_use() -> None:
    old = {**profiles.CARD, "name": "Tesla P100", "computeMajor": 6}
    assert found("no-mixed-precision", profiles.text(profiles.kineto(names=(profiles.SGEMM,), card=old))) is None


def test_without_a_card_it_is_merely_possible() -> None:
    finding = found("no-mixed-precision", profiles.text(profiles.kineto(names=(profiles.SGEMM,), card=None)))
    assert finding
    assert finding.certainty is Certainty.POSSIBLE


def test_a_dry_run_with_much_work_in_float32_is_a_note() -> None:
    devices = answer()["devices"]
    heavy = {**devices, "flop": {"cuda": 3e12}}
    assert run_notes(devices=heavy) == ["no-mixed-precision"]
    assert run_notes(devices=heavy, calls={"autocast": [{"dtype": "bfloat16", "place": None}]}) == []


TRAINS = """\
import torch
import torchvision
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torchvision.models.resnet50().to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    opt.step()
"""
WIDE = TRAINS.replace("torchvision.models.resnet50()", "nn.Sequential(nn.Linear(2048, 4096), nn.ReLU(), nn.Linear(4096, 10))")


def _source_notes(text: str) -> list[str]:
    return [f.weight.name for f in lint(text).findings if f.slug == "no-mixed-precision"]


@pytest.mark.parametrize("text", [TRAINS, WIDE, TRAINS.replace("torchvision.models.resnet50()", "nn.Transformer()"), TRAINS.replace("for x, y in loader", "for i, (x, y) in enumerate(loader)")])
def test_a_large_model_in_float32_is_a_note(text: str) -> None:
    assert _source_notes(text) == ["NOTE"]


@pytest.mark.parametrize(
    "text",
    [
        TRAINS.replace("model(x.to(device))", "run(model, x)"),
        "import torch\ntorch.set_float32_matmul_precision('high')\n" + TRAINS,
        "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\n" + TRAINS,
        TRAINS.replace("    loss = ", "    with torch.autocast('cuda'):\n        loss = "),
        TRAINS.replace(".to(device)\nopt", ".to(device, torch.bfloat16)\nopt"),
        TRAINS.replace(".to(device)\nopt", ".double().to(device)\nopt"),
        TRAINS.replace('"cuda" if torch.cuda.is_available() else "cpu"', '"cpu"'),
        TRAINS.replace("torchvision.models.resnet50()", "nn.Linear(10, 2)"),
        TRAINS.replace("    loss.backward()\n    opt.step()\n", ""),
        TRAINS.replace("import torchvision", "import torchvision\nfrom accelerate import Accelerator\naccelerator = Accelerator()"),
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert _source_notes(text) == []


def test_a_busy_card_makes_a_warning_of_it() -> None:
    busy = "| 0%   62C    P0   388W / 400W |  31000MiB / 40960MiB |     99%      Default |"
    assert slugs(TRAINS, f"NVIDIA-SMI 550.54  Driver Version: 550.54\n|   0  NVIDIA A100-SXM4-40GB  On | 00000000:01:00.0 Off | 0 |\n{busy}") == ["no-mixed-precision"]


TRAINED = """\
import torch, torchaudio, torchvision
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sounds(Dataset):
    def __init__(self, entries):
        self.entries = entries

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, i):
        wave, rate = torchaudio.load(self.entries[i])
        return torch.stft(wave.mean(0), 2048, return_complex=True).abs().log1p().expand(3, -1, -1), 0


def main(entries):
    device = torch.device("cuda")
    loader = DataLoader(Sounds(entries), shuffle=True, batch_size=32, num_workers=WORKERS)
    model = torchvision.models.densenet201(num_classes=50).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("said", ["RTX 3090. Training is very slow. GPU utilization is only 1 %", "A100, slow training, GPU-Util 5-10 % in nvidia-smi"])
def test_a_card_that_waits_gains_nothing_by_precision(said: str) -> None:
    assert slugs(said, TRAINED.replace("WORKERS", "0"))[0] == "single-process-dataloader"
    assert "no-mixed-precision" not in slugs(said, TRAINED.replace("WORKERS", "0"))
    assert slugs(said, TRAINED.replace("WORKERS", "8"))[0] == "input-pipeline-bound"


def test_a_card_that_is_full_gains() -> None:
    said = "Tesla V100. GPU-Util is 99-100 % all the time, data loading is not the problem. Training takes too long"
    assert slugs(said, TRAINED.replace("WORKERS", "8")) == ["no-mixed-precision"]
    assert slugs(said, TRAINED.replace("WORKERS", "8").replace("loss =", "with torch.autocast('cuda'): loss =")) == []
