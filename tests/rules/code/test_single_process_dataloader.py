# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import lint, linted, slugs
from parts.dryruns import CALL
from parts.dryruns import slugs as run_slugs
from parts.programs import HEAD, MODEL, PICTURES, START


@pytest.mark.parametrize(
    "text",
    [
        "UserWarning: The dataloader, train_dataloader, does not have many workers which may be a "
        "bottleneck. Consider increasing the value of the `num_workers` argument` (try 16 which is the "
        "number of cpus on this machine) in the `DataLoader` init to improve performance.",
        "num_workers: 0\n"
        "GPU utilization is 5%, training is very slow",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "single-process-dataloader"


@pytest.mark.parametrize(
    "text",
    [
        "num_workers: 8\n"
        "GPU utilization is 95%",
    ],
)
def test_neighbours(text: str) -> None:
    assert "single-process-dataloader" not in slugs(text)


@pytest.mark.parametrize(("seconds", "workers", "found"), [(2.0, 0, True), (2.0, 4, False), (0.004, 0, False)])
def test_a_dry_run_whose_batches_take_long(seconds: float, workers: int, found: bool) -> None:
    loaders = [{"place": CALL, "dataset": "Videos", "workers": workers, "batches": 4, "seconds": seconds}]
    assert run_slugs(loaders=loaders) == (["single-process-dataloader"] if found else [])


@pytest.mark.parametrize(
    "text",
    [
        "from PIL import Image\n" + START + PICTURES + """\
        return Image.open(str(i)), i

model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Pictures(), batch_size=8)
for x, y in loader:
    model(x.to(device)).mean().backward()
    opt.step()
""",
        START + PICTURES + """\
        return nn.functional.interpolate(torch.rand(1, 3, 512, 512), size=(64, 64))[0], i

model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Pictures(), 8, num_workers=0)
for x, y in loader:
    model(x.to(device)).mean().backward()
    opt.step()
""",
        "from torchvision.datasets import ImageFolder\n" + START + MODEL + """\
loader = DataLoader(ImageFolder("photos"), 8)
for x, y in loader:
    model(x.to(device)).mean().backward()
    opt.step()
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "single-process-dataloader" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        START + MODEL + """\
loader = DataLoader(torch.utils.data.TensorDataset(torch.rand(9, 4), torch.rand(9)), 8)
for x, y in loader:
    model(x.to(device)).mean().backward()
    opt.step()
""",
        "from PIL import Image\n" + START + PICTURES + """\
        return Image.open(str(i)), i

model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Pictures(), batch_size=8, num_workers=args.workers)
for x, y in loader:
    model(x.to(device)).mean().backward()
    opt.step()
""",
        "from torchvision.datasets import MNIST\n" + START + MODEL + """\
loader = DataLoader(MNIST("data"), 8)
for x, y in loader:
    model(x.to(device)).mean().backward()
    opt.step()
""",
        "from PIL import Image\n" + START + PICTURES + """\
        return Image.open(str(i)), i

model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Pictures(), **options)
for x, y in loader:
    model(x.to(device)).mean().backward()
    opt.step()
""",
        "from PIL import Image\n" + START + PICTURES + """\
        return Image.open(str(i)), i

loader = DataLoader(Pictures())
for x, y in loader:
    print(x.shape)
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "single-process-dataloader" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + """
from torchvision import datasets, transforms
ds = datasets.ImageFolder("data", transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()]))
loader = DataLoader(ds, batch_size=64, shuffle=True)
model = Net().to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    opt.step()
""",
        HEAD
        + """
from PIL import Image
class D(Dataset):
    def __init__(self, files):
        self.files = files
    def __len__(self):
        return len(self.files)
    def __getitem__(self, i):
        return Image.open(self.files[i]).convert("RGB")
def main():
    model = Net().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(D(["a"]), 32, num_workers=0):
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        opt.step()
main()
""",
        HEAD
        + """
import cv2
class D(Dataset):
    def __getitem__(self, i):
        img = cv2.imread(f"{i}.png")
        return torch.from_numpy(img), 0
    def __len__(self):
        return 9
class Trainer:
    def __init__(self):
        self.model = Net().to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(D(), batch_size=4, shuffle=True)
    def fit(self):
        for x, y in self.loader:
            self.opt.zero_grad()
            F.cross_entropy(self.model(x.to(device)), y.to(device)).backward()
            self.opt.step()
Trainer().fit()
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "single-process-dataloader" in linted(text)


KERAS = """\
import cv2, numpy as np
import tensorflow as tf
class Pictures(tf.keras.utils.Sequence):
    def __init__(self, files):
        self.files = files
    def __len__(self):
        return 10
    def __getitem__(self, i):
        return np.stack([cv2.imread(f) for f in self.files[i]]), 0
model = tf.keras.applications.ResNet50()
model.compile("adam", "mse")
model.fit(Pictures(files), epochs=3)
"""


@pytest.mark.parametrize("text", [KERAS, KERAS.replace("Pictures(files), ", "data, ").replace("model = ", "data = Pictures(files)\nmodel = "), KERAS.replace("tf.keras.utils.Sequence", "tf.keras.utils.PyDataset")])
def test_a_keras_sequence_without_workers(text: str) -> None:
    (finding,) = [f for f in lint(text).findings if f.slug == "single-process-dataloader"]
    assert (finding.variant, "cv2.imread" in finding.text("en").title) == ("keras", True)


@pytest.mark.parametrize(
    "text",
    [
        KERAS.replace("epochs=3", "epochs=3, workers=8, use_multiprocessing=True"),
        KERAS.replace("        self.files = files\n", "        super().__init__(workers=8, use_multiprocessing=True)\n        self.files = files\n"),
        KERAS.replace("Pictures(files)", "Pictures(files, workers=4)"),
        KERAS.replace("cv2.imread(f) for f in self.files[i]", "f for f in self.files[i]"),
        KERAS.replace("Pictures(files), ", "x, y, "),
        KERAS.replace("epochs=3", "**options"),
    ],
)
def test_keras_that_is_fed_otherwise(text: str) -> None:
    assert "single-process-dataloader" not in linted(text)


def test_no_workers_beside_a_gpu_that_jumps() -> None:
    used = "$ nvidia-smi --query-gpu=utilization.gpu --format=csv -l 1\nutilization.gpu [%]\n{} %\n{} %\n88 %\n"
    assert slugs("workers = 0, batch size 24", used.format(0, 0))[0] == "single-process-dataloader"
    assert not slugs("workers = 0, batch size 24", used.format(91, 90))
    assert "single-process-dataloader" not in slugs("workers = 8, batch size 24", used.format(0, 0))


@pytest.mark.parametrize(("made", "slow"), [("torch.poisson(clean)", True), ("torch.fft.fft2(clean).abs()", True), ("clean * 2", False)])
def test_samples_that_are_computed(made: str, slow: bool) -> None:
    text = HEAD + f"""
class Noisy(Dataset):
    def __len__(self):
        return 20000

    def __getitem__(self, i):
        clean = torch.ones(64)
        return {made}, i % 10


model = Net().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for x, y in DataLoader(Noisy(), batch_size=16, num_workers=0):
    F.cross_entropy(model(x.to(device)), y.to(device)).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    assert ("single-process-dataloader" in linted(text)) is slow
