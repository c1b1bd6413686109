# ruff: noqa: E501  programs stand in one piece
"""Programs as public threads show them: the rule names the fault, and is silent about the neighbour without it.

More than 400 lines because the programs stand whole.
"""

import pytest
from asking import explain, linted
from parts.programs import HEAD, MODEL, START, TRAINED

from ongpu.model import Severity
from ongpu.sources.python.text import is_program

FAULTS = {
    "checkpoint-map-location cpu": """\
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(10, 10)
state = torch.load("model.pth")
model.load_state_dict(state)
model.to(device)
print(model(torch.randn(1, 10).to(device)))
""",
    "config-forces-cpu default": """\
import argparse
import torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_false", default=True, help="disables CUDA training")
args = parser.parse_args()
use_cuda = not args.no_cuda and torch.cuda.is_available()
device = torch.device("cuda" if use_cuda else "cpu")
net = nn.Linear(10, 10).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(1000):
    loss = net(torch.randn(64, 10, device=device)).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "cuda-tensor-in-worker 40403": """\
import random
import torch
import torch.utils.data as data


class DummyDataset(data.Dataset):
    def __init__(self, num_classes):
        super(DummyDataset, self).__init__()
        self.tensor = torch.randn(3, 224, 224, device=torch.device('cuda'))
        self.num_classes = num_classes

    def __getitem__(self, index):
        torch.manual_seed(index)
        random.seed(index)
        return self.tensor, random.randint(0, self.num_classes - 1)

    def __len__(self):
        return 10000

loader = data.DataLoader(DummyDataset(1000), batch_size=64, num_workers=4)
for x, y in loader:
    print(x.shape, y.shape)
""",
    "cuda-tensor-in-worker 4377": """\
import torch
from torch.utils.data import DataLoader, TensorDataset

features = torch.cuda.LongTensor(range(12)).view(3, 4)
labels = torch.cuda.LongTensor(range(3))
dataset = TensorDataset(features, labels)
dataloader = DataLoader(dataset, num_workers=2)
for feat, lab in dataloader:
    print(feat)
    print(lab)
""",
    "cudnn-benchmark-variable-shapes det": """\
import random
import torch
import torchvision
from torch.utils.data import DataLoader
from data import Detection

torch.backends.cudnn.benchmark = True

def collate(batch):
    size = random.choice(range(320, 640, 32))
    imgs = torch.stack([torch.nn.functional.interpolate(i[None], size=(size, size))[0] for i, _ in batch])
    return imgs, [t for _, t in batch]

model = torchvision.models.resnet50().cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Detection(), batch_size=16, shuffle=True, num_workers=8, collate_fn=collate)
for imgs, targets in loader:
    loss = model(imgs.cuda()).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "device-mismatch twogpu": """\
import torch
from torch import nn
class Split(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(10, 10).to("cuda:0")
        self.b = nn.Linear(10, 10).to("cuda:1")
    def forward(self, x):
        return self.b(self.a(x))
m = Split()
print(m(torch.randn(2, 10).to("cuda:0")))
""",
    "grad-accum-token-weighting hf": """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq
from data import tokenized
tok = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
loader = DataLoader(tokenized(tok), batch_size=2, collate_fn=DataCollatorForSeq2Seq(tok), num_workers=2, shuffle=True)
opt = torch.optim.AdamW(model.parameters(), lr=1e-5)
accum = 16
for i, batch in enumerate(loader):
    batch = {k: v.cuda() for k, v in batch.items()}
    out = model(**batch)
    (out.loss / accum).backward()
    if (i + 1) % accum == 0 or i + 1 == len(loader):
        opt.step()
        opt.zero_grad()
""",
    "grad-accum-unscaled i2sb9": """\
import torch
from torch import nn
import torch.nn.functional as F

def train(opt, net, dataset):
    loader = iter(torch.utils.data.DataLoader(dataset, batch_size=opt.microbatch, shuffle=True, num_workers=4, drop_last=True))
    optimizer = torch.optim.AdamW(net.parameters(), lr=opt.lr)
    n_inner_loop = opt.batch_size // opt.microbatch
    net.train()
    for it in range(opt.num_itr):
        optimizer.zero_grad()
        for _ in range(n_inner_loop):
            x0, x1 = next(loader)
            x0, x1 = x0.to(opt.device), x1.to(opt.device)
            t = torch.rand(x0.shape[0], 1, 1, 1, device=opt.device)
            xt = t * x1 + (1 - t) * x0
            pred = net(xt)
            loss = F.mse_loss(pred, x1 - x0)
            loss.backward()
        optimizer.step()
""",
    "nccl-timeout rank0_barrier": """\
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    model = DDP(nn.Linear(10, 10).cuda(local), device_ids=[local])
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        x = torch.randn(32, 10, device=local)
        loss = model(x).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        if rank == 0 and step % 100 == 0:
            torch.save(model.state_dict(), "ckpt.pt")
            dist.barrier()
main()
""",
    "nccl-timeout rank0_reduce": """\
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

def reduce_mean(t):
    t = t.clone()
    dist.all_reduce(t)
    return t / dist.get_world_size()

def train(rank, world_size):
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
    model = DDP(nn.Linear(10, 10).cuda(rank), device_ids=[rank])
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        loss = model(torch.randn(32, 10, device=rank)).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        if rank == 0:
            print(step, reduce_mean(loss.detach()).item())

if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "localhost"; os.environ["MASTER_PORT"] = "29500"
    torch.multiprocessing.spawn(train, args=(4,), nprocs=4)
""",
    "no-mixed-precision vit": """\
import time
import timm
import torch
from torch import nn
model = timm.create_model("vit_large_patch16_224").cuda()
opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(64, 3, 224, 224).cuda()
y = torch.randint(0, 1000, (64,)).cuda()
for i in range(100):
    t = time.time()
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
    torch.cuda.synchronize()
    print(i, time.time() - t)
""",
    "oom-graph-retained tntorch19": """\
import torch
import tntorch as tn

def optimize(tensors, loss_function, optimizer=torch.optim.Adam, tol=1e-4, max_iter=10000, print_freq=500):
    if not isinstance(tensors, (list, tuple)):
        tensors = [tensors]
    parameters = []
    for t in tensors:
        parameters.extend([c for c in t.cores if c.requires_grad])
    optimizer = optimizer(parameters)
    losses = []
    converged = False
    it = 0
    while it < max_iter:
        optimizer.zero_grad()
        loss = loss_function(*tensors)
        loss.backward()
        optimizer.step()
        losses.append(loss)
        if it % print_freq == 0:
            print("iter: {: <{}}| loss: {:8f}".format(it, 6, losses[-1].item()))
        it += 1

device = torch.device("cuda")
im = torch.rand(100, 100, device=device)
t = tn.rand(im.shape, ranks_tt=10, requires_grad=True, device=device)
optimize(t, lambda t: tn.relative_error(im, t) ** 2)
""",
    "torch-compile-recompiles 114293": """\
import torch

@torch.compile
def accumulate(mats, start, end):
    out = mats[start]
    for i in range(start + 1, end):
        out = out @ mats[i]
    return out

mats = torch.randn(100, 256, 256, device="cuda")
n = 10
for start in range(0, 90):
    r = accumulate(mats, start, n)
    torch.cuda.synchronize()
""",
}

ALSO = {  # more of the same kinds
    "to-result-discarded without imports": """
def train_step(encoder, train_loader, optimizer, device):
    for i, (img, target) in enumerate(train_loader):
        img.to("cuda")
        loss = F.mse_loss(encoder(img), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "single-process-dataloader default": START
    + """
import argparse, cv2
parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=0)
args = parser.parse_args()
class Pictures(Dataset):
    def __getitem__(self, i):
        return torch.from_numpy(cv2.imread(self.names[i]))
model = nn.Linear(4, 2).to(device)
for x in DataLoader(Pictures(), 8, num_workers=args.num_workers):
    model(x.to(device)).mean().backward()
""",
    "single-process-dataloader of Hugging Face": """
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import ViTForImageClassification
ds = load_dataset("imagefolder", data_dir="imgs", split="train")
ds.set_transform(lambda batch: {"pixel_values": [crop(i) for i in batch["image"]], "labels": batch["label"]})
model = ViTForImageClassification.from_pretrained("google/vit-base-patch16-224").to("cuda")
opt = torch.optim.AdamW(model.parameters())
for batch in DataLoader(ds, batch_size=32, shuffle=True):
    loss = model(**{k: v.to("cuda") for k, v in batch.items()}).loss
    loss.backward()
    opt.step()
    opt.zero_grad()
""",
    "oom-graph-retained set back now and then": TRAINED
    + """
running = 0.0
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    running += loss
    if i % 2000 == 1999:
        print(i, running / 2000)
        running = 0.0
""",
    "grad-accum-tail-dropped since": TRAINED
    + """
accumulate, last = 32, -1
for epoch in range(100):
    optimizer.zero_grad()
    last = -1
    for ni, (x, y) in enumerate(loader):
        loss = criterion(model(x.to(device)), y.to(device)) / accumulate
        loss.backward()
        if ni - last >= accumulate:
            optimizer.step()
            optimizer.zero_grad()
            last = ni
""",
    "grad-accum-unscaled pieces": TRAINED
    + """
for x, y in loader:
    optimizer.zero_grad()
    for xs, ys in zip(x.to(device).split(8), y.to(device).split(8)):
        pass
    micro_batches = x.to(device).split(8)
    for micro_batch in micro_batches:
        loss = F.mse_loss(model(micro_batch), torch.zeros(8, 10, device=device))
        loss.backward()
    optimizer.step()
""",
    "sync-in-hot-loop micro": TRAINED
    + """
for step in range(1000):
    total = 0.0
    for _ in range(4):
        loss = model(torch.randn(8, 64, device=device)).mean() / 4
        loss.backward()
        total += loss.item()
        if torch.isnan(loss).item():
            raise RuntimeError
    optimizer.step()
    optimizer.zero_grad()
""",
    "tensor-created-on-cpu running state": HEAD
    + """
class Cell(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Linear(dim, dim)
        self.state = torch.zeros(1, dim)
    def forward(self, x):
        state = torch.sigmoid(self.gate(x)) * self.state
        self.state = state.detach().mean(0, keepdim=True)
        return state
Cell(64).to("cuda")(torch.randn(8, 64, device="cuda"))
""",
    "oom-outputs-kept-on-gpu filed": HEAD
    + """
model, found = Net().to("cuda"), {}
with torch.no_grad():
    for name, x in DataLoader(dataset, 8, num_workers=2):
        found[name] = model(x.to("cuda"))
""",
    "workload-too-small one at a time": """
import time
import torch
from torch import nn
net = nn.GRUCell(20, 25).cuda()
opt = torch.optim.Adam(net.parameters())
begin = time.time()
for i in range(1000):
    x = torch.randn(1, 20, device="cuda")
    loss = net(x).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(time.time() - begin)
""",
    "library-has-no-gpu-path gensim": """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
from gensim.models import Word2Vec
model = Word2Vec([["a", "b"]], vector_size=300)
""",
    "input-pipeline-bound augmented": """
from keras.models import Sequential
from keras.layers import Dense
from keras.preprocessing.image import ImageDataGenerator
model = Sequential([Dense(10)])
model.compile("adam", "mse")
generator = ImageDataGenerator(rotation_range=40, zoom_range=0.2)
train = generator.flow_from_directory("train", batch_size=64)
model.fit(train, epochs=10)
""",
    "cudnn-kernel-fallback dilated": """
import time
import torch
torch.backends.cudnn.deterministic = True
conv = torch.nn.Conv2d(64, 64, 3, padding=4, dilation=4).cuda()
begin = time.time()
for _ in range(100):
    conv(torch.randn(8, 64, 32, 32, device="cuda"))
print(time.time() - begin)
""",
    "device-side-assert drawn": """
import torch
logits = torch.rand([210, 6]).cuda()
target = torch.randint(0, 8, [210]).cuda()
torch.nn.functional.nll_loss(logits, target)
""",
    "oom-graph-retained in a method": HEAD
    + """
class Labels(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(4))
    def forward(self, x):
        return (self.w * x).sum()
    def estimate(self, batches):
        optimizer = torch.optim.Adam(self.parameters())
        running = 0.0
        for x in batches:
            loss = self(x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss
        return running / len(batches)
Labels().cuda().estimate(torch.randn(1000, 4).cuda().split(8))
""",
}

CALLBACK = """
import torch
import lightning as L
class Keep(L.Callback):
    def __init__(self):
        self.kept = []
    def on_predict_batch_end(self, trainer, module, outputs, batch, batch_idx):
        x, y = batch
        picked = outputs.mean(dim=-1)
        self.kept.append(picked)
"""

HEALTHY = {
    "a loss of several terms": TRAINED + "for x, y in loader:\n    out = model(x.to(device))\n    loss = criterion(out, y.to(device))\n    loss += 0.1 * out.pow(2).mean()\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n",
    "one backward on a sum of all turns": TRAINED + "for epoch in range(9):\n    cost = 0\n    for t in range(17):\n        cost = cost + model(torch.randn(8, 64, device=device)).mean()\n    cost = cost / 17\n    cost.backward()\n    optimizer.step()\n    optimizer.zero_grad()\n",
    "an encoding that moves in place": "def run(model, loader, optimizer):\n    for enc, labels in loader:\n        enc.to('cuda')\n        loss = model(**enc, labels=labels.to('cuda')).loss\n        loss.backward()\n        optimizer.step()\n        optimizer.zero_grad()\n",
    "workers by default": START + "import argparse, cv2\nparser = argparse.ArgumentParser()\nparser.add_argument('--workers', type=int, default=8)\nargs = parser.parse_args()\nclass P(Dataset):\n    def __getitem__(self, i):\n        return torch.from_numpy(cv2.imread(self.names[i]))\n"
    + MODEL + "for x in DataLoader(P(), 8, num_workers=args.workers):\n    model(x.to(device)).mean().backward()\n",
    "a counter that runs on": TRAINED + "nb, accumulate, last = len(loader), 4, -1\nfor epoch in range(9):\n    for i, (x, y) in enumerate(loader):\n        ni = i + nb * epoch\n        loss = criterion(model(x.to(device)), y.to(device)) / accumulate\n        loss.backward()\n        if ni - last >= accumulate:\n            optimizer.step()\n            optimizer.zero_grad()\n            last = ni\n",
    "pieces with their share": TRAINED + "for x, y in loader:\n    optimizer.zero_grad()\n    micro_batches = x.to(device).split(8)\n    for micro_batch in micro_batches:\n        loss = model(micro_batch).mean() / len(micro_batches)\n        loss.backward()\n    optimizer.step()\n",
    "critics that step themselves": TRAINED + "batches = iter(loader)\nfor it in range(99):\n    for _ in range(5):\n        x, y = next(batches)\n        optimizer.zero_grad()\n        loss = criterion(model(x.to(device)), y.to(device))\n        loss.backward()\n        optimizer.step()\n",
    "one read in each micro-batch": TRAINED + "for step in range(99):\n    total = 0.0\n    for _ in range(4):\n        loss = model(torch.randn(8, 64, device=device)).mean() / 4\n        loss.backward()\n        total += loss.item()\n    optimizer.step()\n    optimizer.zero_grad()\n",
    "a state that reset() moves": HEAD + "class Cell(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(4, 4)\n        self.state = torch.zeros(1, 4)\n    def reset(self, x):\n        self.state = torch.zeros(1, 4, device=x.device)\n    def forward(self, x):\n        self.state = self.fc(x) * self.state\n        return self.state\ncell = Cell().to('cuda')\n",
    "outputs filed on the host": HEAD + "model, found = Net().to('cuda'), {}\nwith torch.no_grad():\n    for name, x in DataLoader(dataset, 8, num_workers=2):\n        found[name] = model(x.to('cuda')).cpu()\n",
    "heads that answer once": HEAD + "heads = nn.ModuleDict({'a': Net(), 'b': Net()}).to('cuda')\nx, out = torch.randn(8, 64, device='cuda'), {}\nwith torch.no_grad():\n    for name, head in heads.items():\n        out[name] = head(x)\n",
    "a detector served one at a time": HEAD + "import time\nmodel = Net().to('cuda').eval()\nwith torch.no_grad():\n    for x in DataLoader(dataset, 1, num_workers=2):\n        begin = time.time()\n        model(x.to('cuda'))\n        print(time.time() - begin)\n",
    "a generator that warps, before a large network": "from keras.applications import ResNet50\nfrom keras.preprocessing.image import ImageDataGenerator\nmodel = ResNet50(weights=None)\nmodel.compile('adam', 'mse')\ngenerator = ImageDataGenerator(rotation_range=40, zoom_range=0.2)\ntrain = generator.flow_from_directory('train', batch_size=64)\nmodel.fit(train)\n",
    "a generator that only scales": "from keras.models import Sequential\nfrom keras.layers import Dense\nfrom keras.preprocessing.image import ImageDataGenerator\nmodel = Sequential([Dense(10)])\nmodel.compile('adam', 'mse')\ntrain = ImageDataGenerator(rescale=1 / 255).flow_from_directory('train', batch_size=64)\nmodel.fit(train, workers=8, use_multiprocessing=True)\n",
    "deterministic without dilation": "import time\nimport torch\ntorch.backends.cudnn.deterministic = True\nconv = torch.nn.Conv2d(64, 64, 3, padding=1).cuda()\nbegin = time.time()\nwith torch.no_grad():\n    conv(torch.randn(8, 64, 32, 32, device='cuda'))\nprint(time.time() - begin)\n",
    "word vectors beside a model on the GPU": HEAD + "from gensim.models import Word2Vec\nvectors = Word2Vec([['a']], vector_size=64)\nmodel = Net().to(device)\nwith torch.no_grad():\n    model(torch.tensor(vectors.wv['a'], device=device)[None])\n",
    "data on the GPU without workers": START + "from torch.utils.data import TensorDataset\nx = torch.randn(100, 4, device='cuda')\n" + MODEL + "for (b,) in DataLoader(TensorDataset(x), 8):\n    model(b).mean().backward()\n    opt.step()\n    opt.zero_grad()\n",
    "two cards, with the move between them": "import torch\nfrom torch import nn\nclass Split(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(10, 10).to('cuda:0')\n        self.b = nn.Linear(10, 10).to('cuda:1')\n    def forward(self, x):\n        return self.b(self.a(x).to('cuda:1'))\nwith torch.no_grad():\n    print(Split()(torch.randn(2, 10).to('cuda:0')))\n",
    "a switch that is off by default": START + "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--no-cuda', action='store_true', default=False)\nargs = parser.parse_args()\ndevice = torch.device('cuda' if not args.no_cuda and torch.cuda.is_available() else 'cpu')\n" + MODEL,
    "rank 0 saves, all wait": "import torch, torch.distributed as dist\ndist.init_process_group('nccl')\nrank = dist.get_rank()\nfor step in range(99):\n    if rank == 0 and step % 10 == 0:\n        torch.save({}, 'x')\n    dist.barrier()\n",
    "fixed blocks of tokens": TRAINED + "steps = 4\nfor step in range(99):\n    for _ in range(steps):\n        x, y = next(iter(loader))\n        loss = F.cross_entropy(model(x.to(device)), y.to(device), ignore_index=-1) / steps\n        loss.backward()\n    optimizer.step()\n    optimizer.zero_grad()\n",
}


@pytest.mark.parametrize("name", FAULTS | ALSO)
def test_found(name: str) -> None:
    assert name.partition(" ")[0] in linted((FAULTS | ALSO)[name])


@pytest.mark.parametrize("name", HEALTHY)
def test_silent(name: str) -> None:
    assert linted(HEALTHY[name]) == []


def test_a_callback_that_keeps_outputs_where_memory_ran_out() -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 130.00 MiB."
    assert next(f.slug for f in explain(CALLBACK, oom).findings) == "oom-outputs-kept-on-gpu"
    on_host = explain(CALLBACK.replace("append(picked)", "append(picked.cpu())"), oom)
    assert all(f.slug != "oom-outputs-kept-on-gpu" for f in on_host.findings if f.weight > Severity.NOTE)
    assert "oom-outputs-kept-on-gpu" not in linted(CALLBACK)


PROSE = """\
\"\"\"Starts a GPU job; the driver is initialised, calls the function and shuts down. GPU utilization was 5 %, slow before.\"\"\"
import torch

def main(device="cpu"):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # training is slow on the cpu
    return torch.zeros(1, device=device).item()

main()
"""


def test_words_of_a_program_are_not_read_as_output() -> None:
    assert [f.slug for f in explain(PROSE).findings if f.weight > Severity.NOTE] == []


@pytest.mark.parametrize("text", ["import torch\nfor i in range(3):\n    print(i)\n0.25\n", "import torch\nx = 3\n", "import numpy\nfor i in x:\n    f()\n"])
def test_what_is_not_a_program_alone(text: str) -> None:
    assert not is_program(text)


def test_an_error_in_a_comment_is_too() -> None:
    text = PROSE.replace("main()\n", "main()  # RuntimeError: CUDA error: device-side assert triggered\n")
    assert [f.slug for f in explain(text).findings if f.weight > Severity.NOTE][:1] == ["device-side-assert"]
