"""Programs with one fault each, as people write them: the rule names it. More wordings stand in each rule's own tests."""

import pytest
from asking import linted
from parts.programs import HEAD, TRAINED

PROGRAMS = [
    (
        "tensor-created-on-cpu",
        TRAINED
        + """
def loss_fn(out):
    target = torch.zeros(out.shape[0], 10)
    return F.mse_loss(out, target)
for x, y in loader:
    loss = loss_fn(model(x.to(device)))
    loss.backward()
    optimizer.step()
""",
    ),
    (
        "tensor-created-on-cpu",
        HEAD
        + """
class RNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 8, batch_first=True)
    def forward(self, x):
        h0 = torch.zeros(1, x.size(0), 8)
        c0 = torch.zeros(1, x.size(0), 8)
        out, _ = self.lstm(x, (h0, c0))
        return out
m = RNN().to(device)
for x, y in DataLoader(dataset, 8, num_workers=2):
    m(x.to(device))
""",
    ),
    (
        "tensor-created-on-cpu",
        HEAD
        + """
class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        att = q @ k.transpose(-2, -1)
        mask = torch.tril(torch.ones(x.size(1), x.size(1)))
        att = att.masked_fill(mask == 0, float("-inf"))
        return att.softmax(-1) @ v
model = Attn().cuda()
model(torch.randn(2, 4, 8).cuda())
""",
    ),
    (
        "tensor-created-on-cpu",
        HEAD
        + """
class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
        self.betas = torch.linspace(1e-4, 0.02, 1000)
        self.alphas = torch.cumprod(1 - self.betas, 0)
    def forward(self, x, t):
        a = self.alphas[t]
        noise = torch.randn_like(x)
        return F.mse_loss(self.net(a.sqrt().view(-1, 1) * x + noise), noise)
m = D().to(device)
for x, _ in DataLoader(dataset, 8, num_workers=2):
    x = x.to(device)
    t = torch.randint(0, 1000, (x.size(0),), device=device)
    m(x, t).backward()
""",
    ),
    (
        "ddp-all-ranks-on-gpu0",
        HEAD
        + """
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
def run(rank, world):
    dist.init_process_group("nccl", rank=rank, world_size=world)
    model = DDP(Net().cuda())
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(dataset, 8, num_workers=2):
        opt.zero_grad()
        F.cross_entropy(model(x.cuda()), y.cuda()).backward()
        opt.step()
if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2)
""",
    ),
    (
        "numpy-on-cuda-tensor",
        TRAINED
        + """
import matplotlib.pyplot as plt
import numpy as np
losses = []
for x, y in loader:
    loss = criterion(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
print(np.mean(losses))
""",
    ),
    (
        "numpy-on-cuda-tensor",
        TRAINED
        + """
from sklearn.metrics import accuracy_score
model.eval()
with torch.no_grad():
    for x, y in loader:
        p = model(x.to(device)).argmax(1)
        print(accuracy_score(y, p))
""",
    ),
    (
        "cuda-tensor-in-worker",
        HEAD
        + """
class D(Dataset):
    def __init__(self, xs, device):
        self.xs, self.device = xs, device
    def __len__(self):
        return len(self.xs)
    def __getitem__(self, i):
        return torch.as_tensor(self.xs[i], dtype=torch.float32).to(self.device)
loader = DataLoader(D([[1.0]], "cuda"), batch_size=2, num_workers=4)
for x in loader:
    pass
""",
    ),
    (
        "fork-after-cuda-init",
        HEAD
        + """
import multiprocessing
def worker(i, q):
    x = torch.ones(4, device="cuda") * i
    q.put(x.sum().item())
def main():
    print(torch.cuda.get_device_name(0), torch.zeros(1).cuda())
    q = multiprocessing.Queue()
    ps = []
    for i in range(4):
        p = multiprocessing.Process(target=worker, args=(i, q))
        p.start()
        ps.append(p)
    for p in ps:
        p.join()
main()
""",
    ),
    (
        "fork-after-cuda-init",
        HEAD
        + """
from concurrent.futures import ProcessPoolExecutor
model = Net().cuda()
def infer(x):
    with torch.no_grad():
        return model(x.cuda()).cpu()
with ProcessPoolExecutor(4) as ex:
    out = list(ex.map(infer, [torch.randn(1, 64)] * 4))
""",
    ),
    (
        "oom-outputs-kept-on-gpu",
        TRAINED
        + """
all_logits = torch.empty(0, device=device)
with torch.no_grad():
    for x, y in loader:
        all_logits = torch.cat([all_logits, model(x.to(device))])
""",
    ),
    (
        "oom-outputs-kept-on-gpu",
        TRAINED
        + """
res = {"logits": [], "labels": []}
with torch.no_grad():
    for x, y in loader:
        res["logits"].append(model(x.to(device)))
""",
    ),
    (
        "cudnn-benchmark-variable-shapes",
        HEAD
        + """
import random
torch.backends.cudnn.benchmark = True
class D(Dataset):
    def __init__(self):
        self.n = 100
    def __len__(self):
        return self.n
    def __getitem__(self, i):
        h, w = random.randint(200, 600), random.randint(200, 600)
        return torch.randn(3, h, w)
net = nn.Conv2d(3, 8, 3).to(device)
for x in DataLoader(D(), batch_size=1, num_workers=4):
    net(x.to(device))
""",
    ),
    (
        "dtype-mismatch",
        HEAD
        + """
import numpy as np
class D(Dataset):
    def __init__(self):
        self.x = np.random.randn(100, 64)
        self.y = np.random.randint(0, 10, 100)
    def __len__(self):
        return 100
    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), self.y[i]
model = Net().to(device)
for x, y in DataLoader(D(), 8, num_workers=2):
    F.cross_entropy(model(x.to(device)), y.to(device))
""",
    ),
    (
        "dtype-mismatch",
        HEAD
        + """
model = Net().to(device).half()
for x, y in DataLoader(dataset, 8, num_workers=2):
    out = model(x.to(device).float())
""",
    ),
    (
        "device-side-assert",
        HEAD
        + """
class Clf(nn.Module):
    def __init__(self, num_classes=9):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, num_classes))
    def forward(self, x):
        return self.net(x)
x = torch.randn(100, 64)
y = torch.randint(0, 10, (100,))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
model = Clf().to(device)
for xb, yb in loader:
    F.cross_entropy(model(xb.to(device)), yb.to(device)).backward()
""",
    ),
    (
        "tensor-created-on-cpu",
        TRAINED
        + """
total = torch.zeros(10)
for x, y in loader:
    total += model(x.to(device)).sum(0)
""",
    ),
    (
        "tensor-created-on-cpu",
        TRAINED
        + """
centers = torch.randn(5, 10)
for x, y in loader:
    d = torch.cdist(model(x.to(device)), centers)
""",
    ),
    (
        "sync-in-hot-loop",
        TRAINED
        + """
for x, y in loader:
    loss = criterion(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if torch.isnan(loss):
        break
    print(f"loss {loss.item():.3f}", loss.cpu(), model.fc.weight.grad.abs().max().item(), model.fc.weight.norm().item())
""",
    ),
    (
        "checkpoint-map-location",
        HEAD
        + """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
import os
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = DDP(Net().cuda(), device_ids=[local_rank])
ckpt = torch.load("checkpoint.pth")
model.load_state_dict(ckpt["state"])
torch.save({"state": model.state_dict()}, "checkpoint.pth")
""",
    ),
    (
        "default-device-cuda",
        HEAD
        + """
torch.set_default_device("cuda")
train, val = torch.utils.data.random_split(dataset, [80, 20])
""",
    ),
]


@pytest.mark.parametrize(("slug", "text"), PROGRAMS)
def test_found(slug: str, text: str) -> None:
    assert slug in linted(text)
