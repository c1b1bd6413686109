"""Healthy code of kinds that were judged wrongly in public repositories (docs/lint-precision.md): no rule may warn."""

import pytest
from asking import linted
from parts.programs import HEAD

PROGRAMS = {
    "an adapter around a model that was moved": """\
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("facebook/opt-125m").to("cuda")
model = PeftModel.from_pretrained(model, "adapter")
print(model(torch.arange(10).view(1, -1).to("cuda")).logits)
""",
    "an adapter around a model that a framework placed": """\
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("facebook/opt-125m", device_map="auto")
model = PeftModel.from_pretrained(model, "adapter")
print(model(torch.arange(10).view(1, -1).to("cuda")).logits)
""",
    "an adapter around a model of unseen code": """\
import torch
from peft import PeftModel
from models import base
model = PeftModel.from_pretrained(base(), "adapter")
print(model(torch.arange(10).view(1, -1).to("cuda")).logits)
""",
    "the branch of a machine without CUDA": HEAD
    + """
use_cuda = torch.cuda.is_available()
bank = torch.zeros(100, 10)
if use_cuda:
    bank = bank.cuda()
net = Net().to(device)
with torch.no_grad():
    for x, index in DataLoader(dataset, 8, num_workers=2):
        out = net(x.to(device))
        if use_cuda:
            bank.index_copy_(0, index.cuda(), out)
        else:
            bank.index_copy_(0, index.cpu(), out.cpu())
""",
    "a data set that computes with CUDA before it is loaded from": """\
import torch
from torch.utils.data import DataLoader, Dataset
class Cached(Dataset):
    def __init__(self, files):
        super().__init__()
        self.files = files
    def __len__(self):
        return len(self.files)
    def prepare(self):
        self.bases = [torch.zeros(len(f)).cuda().pow(2).cpu() for f in self.files]
    def __getitem__(self, i):
        return self.bases[i]
loader = DataLoader(Cached(files), 8, num_workers=4)
""",
    "layers that take over another's weights": """\
import torch
from torch import nn
from models import load
def take(layer, cell):
    layer.weight_ih_l0 = nn.Parameter(cell.weight_ih)
    layer.bias_ih_l0 = nn.Parameter(cell.bias_ih)
class Step(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.rnn = nn.LSTM(8, 8, 1)
        take(self.rnn, model.decoder)
    def forward(self, x):
        return self.rnn(x)[0]
step = Step(load())
step.eval()
with torch.no_grad():
    step(torch.randn(1, 1, 8).cuda())
""",
    "parameters that were kept before the move": """\
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 1)
        self.kept = [self.conv.weight]
    def forward(self, x):
        return self.conv(x)
block = Block().cuda()
for w in block.kept:
    print((torch.ones(8, 3, 1, 1, device="cuda") - w).abs().max().item())
""",
    "a weight under a name of its own": """\
import torch
from torch import nn
layer = nn.Linear(4, 4)
weight = layer.weight
layer.cuda()
print(weight + torch.ones(4, 4, device="cuda"))
""",
    "a default of tensors that a question decides": """\
import torch
from torch import nn
if torch.cuda.is_available():
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
else:
    torch.set_default_tensor_type("torch.FloatTensor")
def shown(net, images):
    with torch.no_grad():
        for image in images:
            scale = torch.Tensor([image.shape[1], image.shape[0], image.shape[1], image.shape[0]])
            print((net(image.cuda()) * scale).sum())
shown(nn.Linear(4, 4).cuda(), images)
""",
    "a part under a name that nobody knows": """\
import torch
from torch import nn
class Merged(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.linear = linear
        self.a = nn.Parameter(torch.zeros(4, 4))
    def forward(self, x):
        return nn.functional.linear(x, self.linear.weight + self.a)
def replace(model):
    for name, module in model.named_children():
        if isinstance(module, nn.Linear):
            setattr(model, name, Merged(module))
        else:
            replace(module)
model = nn.Sequential(nn.Linear(4, 4))
replace(model)
model.to("cuda")
model(torch.ones(1, 4, device="cuda"))
""",
    "one process on all cards, or a rank each": """\
import argparse
import torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
args = parser.parse_args()
if args.local_rank == -1:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    n_gpu = torch.cuda.device_count()
else:
    device = torch.device("cuda", args.local_rank)
    n_gpu = 1
    torch.distributed.init_process_group(backend="nccl")
model = nn.Linear(4, 4)
model.to(device)
if args.local_rank != -1:
    model = nn.parallel.DistributedDataParallel(model, device_ids=[args.local_rank])
elif n_gpu > 1:
    model = nn.DataParallel(model)
model.eval()
with torch.no_grad():
    model(torch.ones(1, 4).to(device))
""",
    "cards that are chosen in time, by a function that is called again": """\
import os
import torch
def select(device=""):
    if device:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
def evaluate(model, args):
    if model is None:
        device = select(args.device)
def main(args):
    device = select(args.device)
    print(torch.cuda.get_device_properties(device))
    evaluate(args.model, args)
main(parse())
""",
    "a model that was given is not asked for again": """\
import os
import torch
def evaluate(model=None, device="1"):
    training = model is not None
    if training:
        print(model)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
evaluate(torch.nn.Linear(2, 2).cuda())
""",
    "layers of Keras, one after the other": """\
from tensorflow import keras
def build(layers):
    net = keras.Sequential(layers)
    x, kept = keras.layers.Input([4]), []
    for layer in net.layers:
        x = layer(x)
        kept.append(x)
    return kept
build([keras.layers.Dense(4)])
""",
    "layers of Keras in a file that also imports PyTorch": """\
import torch
from tensorflow import keras
net = keras.Sequential([keras.layers.Dense(4)])
x, kept = keras.layers.Input([4]), []
for layer in net.layers:
    x = layer(x)
    kept.append(x)
torch.save(kept, "kept.pt")
""",
    "pictures of a foreign library": """\
import albumentations as A
import jax
import numpy as np
change = A.Compose([A.Normalize()])
images = []
for picture in pictures:
    images.append(change(image=picture)["image"])
print(jax.device_put(np.array(images)))
""",
    "losses of several heads, with a scaler or none": """\
import torch
from torch import nn
def epoch(model, heads, optimizer, loader, half, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        outputs = model(x.cuda())
        total = 0
        if not half:
            for n in range(3):
                total += heads(outputs[n], y.cuda())
            total.backward()
        else:
            for n in range(3):
                total += heads(outputs[n].float(), y.cuda())
            scaler.scale(total).backward()
half = False
scaler = torch.amp.GradScaler("cuda") if half else None
model = nn.Linear(4, 4).cuda()
for n in range(3):
    epoch(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1), loader, half, None)
""",
    "an optimizer that reads once, and what lies on the host": """\
import torch
CHUNK = torch.tensor(128)
class Own(torch.optim.Optimizer):
    def step(self, closure=None):
        for group in self.param_groups:
            if "norms" not in group:
                group["norms"] = [p.grad.norm().item() for p in group["params"]]
            for p in group["params"]:
                if len(self.state[p]) == 0:
                    self.state[p]["first"] = p.grad.norm().item()
                update(p, CHUNK.item())
""",
    "a checkpoint that one rank reads": """\
import os
import torch
from torch import nn
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
torch.distributed.init_process_group("nccl")
model = nn.Linear(4, 4).cuda()
torch.save(model.state_dict(), "last.pt")
if rank == 0:
    print(torch.load("last.pt").keys())
""",
    "a checkpoint that was saved from the host": """\
import os
import torch
from torch import nn
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
model = nn.Linear(4, 4)
torch.save(model.state_dict(), "first.pt")
model.load_state_dict(torch.load("first.pt"))
""",
    "a checkpoint that each rank wrote itself": """\
import os
import torch
from torch import nn
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
def check(model, folder):
    torch.save(model.state_dict(), folder / "rest.pt")
    again = nn.Linear(4, 4)
    again.load_state_dict(torch.load(folder / "rest.pt"))
check(nn.Linear(4, 4).cuda(), folder)
""",
    "cards in a function that nobody calls": """\
import os
import torch
def select(device):
    os.environ["CUDA_VISIBLE_DEVICES"] = device
    return device
def measure(model, device=None):
    if not isinstance(device, torch.device):
        device = select(device)
    return model(torch.zeros(4).to(device))
def fits(model):
    device = next(model.parameters()).device
    free = torch.cuda.get_device_properties(device).total_memory
    return free, measure(model, device)
""",
    "a comparison of gradients": """\
import torch
from torch import nn
for stride in (1, 2):
    x = torch.randn(4, 3, 8, 8).cuda().requires_grad_()
    one, other = nn.Conv2d(3, 4, 1, stride).cuda()(x), nn.Conv2d(3, 4, 1, stride).cuda().half()(x.half())
    one.mean().backward()
    torch.cuda.synchronize()
    print("max error", (one - other).abs().max().item(), "of", one.abs().max().item(), "mean", one.mean().item(), other.mean().item())
""",
    "parts that are added under names of their own": """\
import torch
from torch import nn
class Side(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
    def prepare(self, x):
        self.kept = self.first(x)
class Control(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.sides = [Side()]
        for name, side in zip(names, self.sides):
            self.add_module(name, side)
    def prepare(self, x):
        for side in self.sides:
            side.prepare(x)
control = Control(names())
control.to("cuda")
control.prepare(torch.ones(1, 4, device="cuda"))
""",
    "transformed pictures": """\
import torch
from torchvision import transforms
CHANGE = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5], [0.5])])
images = []
for picture in pictures:
    images.append(CHANGE(picture))
batch = torch.stack(images).cuda()
""",
    "a method of a model by its name": """\
import torch
from transformers import AutoModel
model = AutoModel.from_pretrained("Qwen/Qwen2-VL-2B")
positions = model.get_rope_index
kept = []
for ids in samples:
    kept.append(positions(torch.tensor(ids)))
print(torch.cat(kept).cuda())
""",
    "a pass through a model, layer by layer": """\
import torch
from torch import nn
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).cuda()
def trace(x):
    kept = []
    for number, layer in enumerate(net):
        x = layer(x)
        kept.append(x)
    print([k.shape for k in kept])
trace(torch.ones(1, 4).cuda())
""",
    "embeddings of a class that nobody sees": """\
import torch
from embeddings import ChunkEmbeddings
bert = ChunkEmbeddings(torch.device("cuda:0"))
kept = []
for n in range(0, len(chunks), 8):
    kept.append(bert(chunks[n:n + 8]).cpu())
kept = torch.cat(kept).numpy()
""",
    "a first call that warms up": """\
import torch
from torch import nn
def test(model, loader):
    model.eval()
    model(torch.zeros(1, 4).cuda())
    with torch.no_grad():
        for x in loader:
            print(model(x.cuda()).argmax())
model = nn.Linear(4, 4).cuda()
for loader in loaders:
    test(model, loader)
""",
    "a copy of a halved model": """\
import copy
import torch
from torch import nn
model = nn.Linear(1, 1)
model.cuda().half()
again = copy.deepcopy(model)
print(again(torch.tensor([2.0]).cuda().half()))
""",
    "a decorator of the program's own that switches gradients off": """\
import torch
from torch import nn
from tools import smart_inference_mode
@smart_inference_mode()
def run(model, data):
    model.eval()
    for x in data:
        print(model(x.cuda()).argmax())
run(nn.Linear(4, 4).cuda(), data)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_silence(name: str) -> None:
    assert linted(PROGRAMS[name]) == []
