"""Healthy programs of many kinds: no rule may warn, let alone complain."""

import pytest
from asking import linted
from parts.programs import HEAD, TRAINED

PROGRAMS = {
    "accelerate": HEAD
    + """
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=4, mixed_precision="bf16")
model = Net()
optimizer = torch.optim.AdamW(model.parameters())
loader, val_loader = DataLoader(dataset, 32, shuffle=True, num_workers=4), DataLoader(val_set, 32, num_workers=4)
model, optimizer, loader, val_loader = accelerator.prepare(model, optimizer, loader, val_loader)
for epoch in range(3):
    model.train()
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    preds = []
    for x, y in val_loader:
        with torch.no_grad():
            out = model(x)
        preds.append(accelerator.gather_for_metrics(out.argmax(-1)).cpu())
    accelerator.print(epoch, torch.cat(preds).shape)
""",
    "lightning": """\
import torch
from torch import nn
import torch.nn.functional as F
import lightning as L
from torch.utils.data import DataLoader
from data import train_set, val_set

class Lit(L.LightningModule):
    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, 10))
        self.register_buffer("scale", torch.ones(32))
        self.outputs = []
    def forward(self, x):
        return self.net(x * self.scale)
    def training_step(self, batch, idx):
        x, y = batch
        noise = torch.randn(x.shape, device=self.device)
        loss = F.cross_entropy(self(x + noise), y)
        self.log("loss", loss)
        return loss
    def validation_step(self, batch, idx):
        x, y = batch
        out = self(x)
        self.outputs.append(out.argmax(-1).cpu())
        self.log("acc", (out.argmax(-1) == y).float().mean())
    def on_validation_epoch_end(self):
        self.outputs.clear()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

trainer = L.Trainer(max_epochs=3, accelerator="auto", accumulate_grad_batches=4)
trainer.fit(Lit(), DataLoader(train_set, 32, num_workers=4), DataLoader(val_set, 32, num_workers=4))
""",
    "hf trainer": """\
import numpy as np
import torch
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=2)
ds = load_dataset("imdb").map(lambda b: tokenizer(b["text"], truncation=True), batched=True)
def metrics(p):
    logits, labels = p
    return {"acc": (np.argmax(logits, axis=-1) == labels).mean()}
args = TrainingArguments("out", per_device_train_batch_size=16, gradient_accumulation_steps=2, fp16=torch.cuda.is_available())
collator = DataCollatorWithPadding(tokenizer)
Trainer(model, args, train_dataset=ds["train"], data_collator=collator, compute_metrics=metrics).train()
""",
    "deepspeed": HEAD
    + """
import deepspeed
def main(args):
    model = Net()
    engine, opt, loader, _ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters(), training_data=dataset)
    for x, y in loader:
        x, y = x.to(engine.device), y.to(engine.device)
        loss = F.cross_entropy(engine(x), y)
        engine.backward(loss)
        engine.step()
""",
    "fsdp": HEAD
    + """
import os
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    model = FSDP(Net().cuda())
    opt = torch.optim.AdamW(model.parameters())
    for x, y in DataLoader(dataset, 8, num_workers=2):
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()
if __name__ == "__main__":
    main()
""",
    "device_map": """\
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
tok = AutoTokenizer.from_pretrained("mistralai/Mistral-7B-v0.1")
tok.pad_token = tok.eos_token
model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1", torch_dtype=torch.float16, device_map="auto")
inputs = tok(["hello"], return_tensors="pt", padding=True).to(model.device)
with torch.inference_mode():
    out = model.generate(**inputs, max_new_tokens=20)
print(tok.batch_decode(out.cpu()))
""",
    "ddp": HEAD
    + """
import os
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data.distributed import DistributedSampler
def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    model = DDP(Net().to(local), device_ids=[local])
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, 32, sampler=sampler, num_workers=4, pin_memory=True)
    if os.path.exists("ckpt.pt"):
        model.module.load_state_dict(torch.load("ckpt.pt", map_location=f"cuda:{local}"))
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            x, y = x.to(local, non_blocking=True), y.to(local, non_blocking=True)
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 100 == 0 and dist.get_rank() == 0:
                print(loss.item())
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), "ckpt.pt")
    dist.destroy_process_group()
main()
""",
    "cpu by intention": HEAD.replace('torch.device("cuda" if torch.cuda.is_available() else "cpu")', 'torch.device("cpu")')
        + """
model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(dataset, 4):
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
""",
    "argument device": HEAD
    + """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
args = p.parse_args()
model = Net().to(args.device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(dataset, 4, num_workers=args.workers):
    x, y = x.to(args.device), y.to(args.device)
    opt.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
""",
    "pytorch cifar tutorial": HEAD
    + """
import torchvision
import torchvision.transforms as transforms
transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])
trainset = torchvision.datasets.CIFAR10(root="./data", train=True, download=True, transform=transform)
trainloader = DataLoader(trainset, batch_size=4, shuffle=True, num_workers=2)
testloader = DataLoader(torchvision.datasets.CIFAR10(root="./data", train=False, transform=transform), batch_size=4, num_workers=2)
net = Net().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
for epoch in range(2):
    running_loss = 0.0
    for i, data in enumerate(trainloader, 0):
        inputs, labels = data[0].to(device), data[1].to(device)
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
        if i % 2000 == 1999:
            print(f"[{epoch + 1}, {i + 1:5d}] loss: {running_loss / 2000:.3f}")
            running_loss = 0.0
correct = total = 0
with torch.no_grad():
    for data in testloader:
        images, labels = data[0].to(device), data[1].to(device)
        outputs = net(images)
        _, predicted = torch.max(outputs, 1)
        total += labels.size(0)
        correct += (predicted == labels).sum().item()
print(correct / total)
""",
    "mnist example": HEAD
    + """
def train(model, device, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch_idx % 10 == 0:
            print("{} {:.6f}".format(epoch, loss.item()))
def test(model, device, test_loader):
    model.eval()
    test_loss = correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
def main():
    kw = {"batch_size": 64}
    if torch.cuda.is_available():
        kw.update({"num_workers": 1, "pin_memory": True, "shuffle": True})
    model = Net().to(device)
    opt = torch.optim.Adadelta(model.parameters(), lr=1.0)
    for epoch in range(1, 3):
        train(model, device, DataLoader(dataset, **kw), opt, epoch)
        test(model, device, DataLoader(val_set, **kw))
    torch.save(model.state_dict(), "mnist.pt")
main()
""",
    "dcgan": HEAD
    + """
netG, netD = nn.Sequential(nn.ConvTranspose2d(100, 3, 4)).to(device), nn.Sequential(nn.Conv2d(3, 1, 4), nn.Sigmoid()).to(device)
criterion = nn.BCELoss()
fixed = torch.randn(64, 100, 1, 1, device=device)
optD, optG = torch.optim.Adam(netD.parameters()), torch.optim.Adam(netG.parameters())
G_losses, D_losses = [], []
for i, data in enumerate(DataLoader(dataset, 64, num_workers=2)):
    netD.zero_grad()
    real = data[0].to(device)
    b = real.size(0)
    label = torch.full((b,), 1.0, dtype=torch.float, device=device)
    output = netD(real).view(-1)
    errD_real = criterion(output, label)
    errD_real.backward()
    D_x = output.mean().item()
    noise = torch.randn(b, 100, 1, 1, device=device)
    fake = netG(noise)
    label.fill_(0.0)
    output = netD(fake.detach()).view(-1)
    errD_fake = criterion(output, label)
    errD_fake.backward()
    D_G_z1 = output.mean().item()
    optD.step()
    netG.zero_grad()
    label.fill_(1.0)
    output = netD(fake).view(-1)
    errG = criterion(output, label)
    errG.backward()
    D_G_z2 = output.mean().item()
    optG.step()
    if i % 50 == 0:
        print(errG.item(), D_x, D_G_z1, D_G_z2)
    G_losses.append(errG.item())
    D_losses.append((errD_real + errD_fake).item())
""",
    "wgan critic steps": HEAD
    + """
G, D = nn.Linear(8, 16).to(device), nn.Linear(16, 1).to(device)
oG, oD = torch.optim.RMSprop(G.parameters()), torch.optim.RMSprop(D.parameters())
for i, (real, _) in enumerate(DataLoader(dataset, 64, num_workers=2)):
    real = real.to(device)
    z = torch.randn(real.size(0), 8, device=device)
    fake = G(z)
    oD.zero_grad()
    loss_d = D(fake.detach()).mean() - D(real).mean()
    loss_d.backward()
    oD.step()
    if i % 5 == 0:
        oG.zero_grad()
        loss_g = -D(G(z)).mean()
        loss_g.backward()
        oG.step()
""",
    "adversarial eval": TRAINED
    + """
model.eval()
for x, y in DataLoader(val_set, 32, num_workers=2):
    x, y = x.to(device), y.to(device)
    x.requires_grad_(True)
    loss = criterion(model(x), y)
    grad = torch.autograd.grad(loss, x)[0]
    adv = x + 0.1 * grad.sign()
    with torch.no_grad():
        print((model(adv).argmax(1) == y).float().mean().item())
""",
    "decorated eval": TRAINED
    + """
@torch.no_grad()
def accuracy(net, data):
    net.eval()
    hits = n = 0
    for x, y in tqdm(data):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        hits += (net(x).argmax(1) == y).sum()
        n += y.numel()
    net.train()
    return (hits / n).item()
@torch.inference_mode()
def embed(net, data):
    net.eval()
    return torch.cat([net(x.to(device)).cpu() for x, _ in data]).numpy()
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    print(accuracy(model, DataLoader(val_set, 64, num_workers=4)), embed(model, DataLoader(val_set, 64, num_workers=4)).shape)
""",
    "phase loop": TRAINED
    + """
import copy
loaders = {"train": loader, "val": DataLoader(val_set, 32, num_workers=4)}
best, best_w = 0.0, copy.deepcopy(model.state_dict())
for epoch in range(5):
    for phase in ["train", "val"]:
        if phase == "train":
            model.train()
        else:
            model.eval()
        running, corrects = 0.0, 0
        for inputs, labels in loaders[phase]:
            inputs, labels = inputs.to(device), labels.to(device)
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                outputs = model(inputs)
                _, preds = torch.max(outputs, 1)
                loss = criterion(outputs, labels)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
            running += loss.item() * inputs.size(0)
            corrects += torch.sum(preds == labels.data)
        acc = corrects.double() / 100
        if phase == "val" and acc > best:
            best = acc
            best_w = copy.deepcopy(model.state_dict())
model.load_state_dict(best_w)
""",
    "accumulation done right": TRAINED
    + """
accum = 4
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x.to(device)), y.to(device)) / accum
    loss.backward()
    if (i + 1) % accum == 0 or (i + 1) == len(loader):
        optimizer.step()
        optimizer.zero_grad()
""",
    "nanogpt accumulation": HEAD
    + """
import numpy as np
block, batch, micro = 256, 12, 5
data = np.memmap("train.bin", dtype=np.uint16, mode="r")
ctx = torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)
def get_batch():
    ix = torch.randint(len(data) - block, (batch,))
    x = torch.stack([torch.from_numpy((data[i:i + block]).astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy((data[i + 1:i + 1 + block]).astype(np.int64)) for i in ix])
    return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(50304, 384)
        self.wpe = nn.Embedding(block, 384)
        self.head = nn.Linear(384, 50304, bias=False)
        self.wte.weight = self.head.weight
    def forward(self, idx, targets=None):
        b, t = idx.size()
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        logits = self.head(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss
model = GPT().to(device)
opt = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda", enabled=False)
X, Y = get_batch()
it = 0
while True:
    for m in range(micro):
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / micro
        X, Y = get_batch()
        scaler.scale(loss).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad(set_to_none=True)
    if it % 10 == 0:
        print(it, loss.item() * micro)
    it += 1
    if it > 1000:
        break
""",
    "position and masks": HEAD
    + """
class Model(nn.Module):
    def __init__(self, vocab, d=64, n=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(d, 4, batch_first=True) for _ in range(3)])
        self.heads = nn.ModuleDict({"a": nn.Linear(d, 2), "b": nn.Linear(d, 3)})
        self.scale = torch.tensor(d ** 0.5)
        self.register_buffer("mask", torch.triu(torch.full((n, n), float("-inf")), 1))
        self.dims = [d, n]
    def forward(self, ids, lengths=None):
        x = self.emb(ids) * self.scale
        pos = torch.arange(ids.size(1), device=ids.device)
        keep = torch.zeros_like(ids, dtype=torch.bool)
        noise = x.new_zeros(x.shape)
        half = torch.tensor(0.5)
        x = (x + noise) * half
        for layer in self.layers:
            x = layer(x, src_mask=self.mask[: x.size(1), : x.size(1)])
        return {k: h(x[:, 0]) for k, h in self.heads.items()}
model = Model(1000).to(device)
for ids, _ in DataLoader(dataset, 4, num_workers=2):
    model(ids.to(device))
""",
    "packed lengths": HEAD
    + """
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
class RNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 16, batch_first=True)
        self.fc = nn.Linear(16, 2)
    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        idx = torch.arange(out.size(0))
        return self.fc(out[idx, lengths - 1])
def collate(items):
    xs, ys = zip(*items)
    return pad_sequence(xs, batch_first=True), torch.tensor([len(x) for x in xs]), torch.tensor(ys)
model = RNN().to(device)
opt = torch.optim.Adam(model.parameters())
for x, n, y in DataLoader(dataset, 8, collate_fn=collate, num_workers=2):
    loss = F.cross_entropy(model(x.to(device), n), y.to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "rl dqn": HEAD
    + """
import random
from collections import deque
import gymnasium as gym
env = gym.make("CartPole-v1")
policy, target = nn.Linear(4, 2).to(device), nn.Linear(4, 2).to(device)
target.load_state_dict(policy.state_dict())
opt = torch.optim.AdamW(policy.parameters())
memory = deque(maxlen=10000)
def act(state, eps):
    if random.random() < eps:
        return torch.tensor([[env.action_space.sample()]], device=device, dtype=torch.long)
    with torch.no_grad():
        return policy(state).max(1).indices.view(1, 1)
for episode in range(100):
    state, _ = env.reset()
    state = torch.tensor(state, dtype=torch.float32, device=device).unsqueeze(0)
    done = False
    while not done:
        action = act(state, 0.1)
        obs, reward, term, trunc, _ = env.step(action.item())
        reward = torch.tensor([reward], device=device)
        done = term or trunc
        nxt = torch.tensor(obs, dtype=torch.float32, device=device).unsqueeze(0)
        memory.append((state, action, nxt, reward))
        state = nxt
        if len(memory) > 128:
            batch = random.sample(memory, 128)
            s = torch.cat([b[0] for b in batch])
            a = torch.cat([b[1] for b in batch])
            n = torch.cat([b[2] for b in batch])
            r = torch.cat([b[3] for b in batch])
            q = policy(s).gather(1, a)
            with torch.no_grad():
                v = target(n).max(1).values
            loss = F.smooth_l1_loss(q, (v * 0.99 + r).unsqueeze(1))
            opt.zero_grad()
            loss.backward()
            opt.step()
""",
    "tf": """\
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf
gpus = tf.config.list_physical_devices("GPU")
for g in gpus:
    tf.config.experimental.set_memory_growth(g, True)
(x, y), _ = tf.keras.datasets.mnist.load_data()
layers = tf.keras.layers
model = tf.keras.Sequential([layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(10)])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(x / 255.0, y, epochs=2, batch_size=128)
""",
    "tf on cpu": """\
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # so little work is faster on the CPU
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit([[1.0]], [[2.0]])
""",
    "jax": """\
import jax, jax.numpy as jnp, optax
from flax import linen as nn
class MLP(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(10)(nn.relu(nn.Dense(64)(x)))
model = MLP()
params = model.init(jax.random.PRNGKey(0), jnp.ones((1, 8)))
opt = optax.adam(1e-3)
state = opt.init(params)
@jax.jit
def step(params, state, x, y):
    def loss_fn(p):
        return optax.softmax_cross_entropy_with_integer_labels(model.apply(p, x), y).mean()
    loss, g = jax.value_and_grad(loss_fn)(params)
    up, state = opt.update(g, state)
    return optax.apply_updates(params, up), state, loss
for i in range(100):
    params, state, loss = step(params, state, jnp.ones((4, 8)), jnp.zeros(4, int))
    if i % 10 == 0:
        print(float(loss))
""",
    "sklearn on features": HEAD
    + """
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
import torchvision
net = torchvision.models.resnet18(weights="DEFAULT").to(device).eval()
net.fc = nn.Identity()
feats, labels = [], []
with torch.inference_mode():
    for x, y in DataLoader(dataset, 64, num_workers=4):
        feats.append(net(x.to(device)).cpu().numpy())
        labels.append(y.numpy())
clf = SVC().fit(np.concatenate(feats), np.concatenate(labels))
""",
    "sklearn only": """\
from sklearn.ensemble import RandomForestClassifier
from sklearn.datasets import load_iris
x, y = load_iris(return_X_y=True)
clf = RandomForestClassifier(n_jobs=-1)
clf.fit(x, y)
print(clf.score(x, y))
""",
    "xgboost gpu": """\
import torch, xgboost as xgb
params = {"device": "cuda" if torch.cuda.is_available() else "cpu", "tree_method": "hist"}
bst = xgb.train(params, xgb.DMatrix(X, y))
clf = xgb.XGBClassifier(device="cuda")
clf.fit(X, y)
""",
    "cuml": """\
import torch
import cuml.accel
cuml.accel.install()
from sklearn.cluster import KMeans
print(torch.cuda.get_device_name())
KMeans(8).fit(X)
""",
    "embedding sizes": HEAD
    + """
V, C = 1000, 10
emb = nn.Embedding(V, 16).to(device)
head = nn.Linear(16, C).to(device)
ids = torch.randint(0, V, (8, 4), device=device)
y = torch.randint(C, (8,), device=device)
loss = F.cross_entropy(head(emb(ids).mean(1)), y)
y[0] = -100
loss = F.cross_entropy(head(emb(ids).mean(1)), y)
y2 = y.clone()
y2[y2 == 3] = -1
F.cross_entropy(head(emb(ids).mean(1)), y2, ignore_index=-1)
""",
    "hf tokens resized": """\
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
tok = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2")
tok.add_special_tokens({"additional_special_tokens": ["<user>"]})
model.resize_token_embeddings(len(tok))
model.to("cuda")
""",
    "dtypes": HEAD
    + """
import numpy as np
x = torch.from_numpy(np.random.rand(8, 64)).float().to(device)
z = torch.from_numpy(np.random.rand(8, 64).astype(np.float32)).to(device)
w = torch.tensor(np.random.rand(8, 64), dtype=torch.float32, device=device)
model = Net().to(device)
with torch.autocast("cuda", dtype=torch.float16):
    model(x.half())
half = Net().half().to(device)
half(x.half())
half(x.to(torch.float16))
double = Net().double().to(device)
double(torch.randn(8, 64, dtype=torch.double, device=device))
model(z + w)
nn.Embedding(10, 4).to(device)(torch.zeros(3, dtype=torch.long, device=device))
F.binary_cross_entropy_with_logits(model(z), torch.randint(0, 2, (8, 10), device=device).float())
param = next(model.parameters())
model(torch.randn(2, 64).to(param))
""",
    "numpy bridge": TRAINED
    + """
import numpy as np
preds, losses = [], []
model.eval()
with torch.no_grad():
    for x, y in loader:
        out = model(x.to(device))
        preds.append(out.softmax(-1).cpu().numpy())
        losses.append(criterion(out, y.to(device)).item())
print(np.concatenate(preds).shape, np.mean(losses))
y = y.numpy()
v = out.to("cpu").detach().numpy()
w = out.cpu()
w = w.numpy()
""",
    "workers": HEAD
    + """
from PIL import Image
class D(Dataset):
    def __init__(self, files, tf):
        self.files, self.tf = files, tf
    def __len__(self):
        return len(self.files)
    def __getitem__(self, i):
        return self.tf(Image.open(self.files[i])), torch.tensor(i)
class OnGpu(Dataset):
    def __init__(self, x):
        self.x = x.to(device)
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        return self.x[i]
a = DataLoader(D(["a"], None), 8, num_workers=4, pin_memory=True, persistent_workers=True)
b = DataLoader(OnGpu(torch.randn(8, 3)), 4, num_workers=0)
model = Net().to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x in b:
    loss = model(x).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "spawn": HEAD
    + """
import torch.multiprocessing as mp
def work(rank, model):
    torch.cuda.set_device(rank)
    model(torch.randn(2, 64, device=rank))
if __name__ == "__main__":
    model = Net().cuda()
    mp.spawn(work, args=(model,), nprocs=2)
    mp.set_start_method("spawn")
    p = mp.Process(target=work, args=(0, model))
    p.start()
""",
    "pool before cuda": HEAD
    + """
from multiprocessing import Pool
def prepare(path):
    return open(path).read()
with Pool(8) as pool:
    texts = pool.map(prepare, ["a", "b"])
model = Net().cuda()
""",
    "visible early": """\
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 2).to(device)
""",
    "visible by option": """\
import argparse, os
p = argparse.ArgumentParser()
p.add_argument("--cpu", action="store_true")
args = p.parse_args()
if args.cpu:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch
model = torch.nn.Linear(4, 2).to("cuda" if torch.cuda.is_available() else "cpu")
""",
    "default device": HEAD
    + """
torch.set_default_device(device)
gen = torch.Generator(device=device)
loader = DataLoader(dataset, 32, shuffle=True, generator=gen)
plain = DataLoader(dataset, 32)
model = Net()
for x, y in loader:
    model(x.to(device))
""",
    "benchmark fixed": HEAD
    + """
torch.backends.cudnn.benchmark = True
import random
import torchvision.transforms as T
tf = T.Compose([T.RandomResizedCrop(224), T.ToTensor()])
random.seed(0)
model = nn.Conv2d(3, 8, 3).to(device)
for x, y in DataLoader(dataset, 8, num_workers=4):
    if random.random() < 0.5:
        x = x.flip(-1)
    model(x.to(device))
""",
    "checkpoint resume": HEAD
    + """
import os
model = Net()
opt = torch.optim.AdamW(model.parameters())
start = 0
if os.path.exists("last.pt"):
    ckpt = torch.load("last.pt", map_location="cpu")
    model.load_state_dict(ckpt["model"])
model.to(device)
if os.path.exists("last.pt"):
    opt.load_state_dict(ckpt["opt"])
for x, y in DataLoader(dataset, 8, num_workers=2):
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "optimizer first, fine": HEAD
    + """
model = Net()
opt = torch.optim.Adam(model.parameters())
model.to(device)
for x, y in DataLoader(dataset, 8, num_workers=2):
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "helper functions move": HEAD
    + """
def to_device(batch, dev):
    if isinstance(batch, (list, tuple)):
        return [to_device(b, dev) for b in batch]
    return batch.to(dev, non_blocking=True)
class DeviceLoader:
    def __init__(self, dl, dev):
        self.dl, self.dev = dl, dev
    def __iter__(self):
        for b in self.dl:
            yield to_device(b, self.dev)
    def __len__(self):
        return len(self.dl)
model = to_device(Net(), device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DeviceLoader(DataLoader(dataset, 8, num_workers=2), device):
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "gradient checkpointing": HEAD
    + """
from torch.utils.checkpoint import checkpoint
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(8)])
        self.out = nn.Linear(64, 10)
    def forward(self, x):
        for b in self.blocks:
            x = checkpoint(b, x, use_reentrant=False)
        return self.out(x)
model = Deep().to(device)
opt = torch.optim.AdamW(model.parameters())
for x, y in DataLoader(dataset, 8, num_workers=2):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "vae": HEAD
    + """
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.mu, self.lv, self.fc3 = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20), nn.Linear(20, 784)
    def reparameterize(self, mu, lv):
        std = torch.exp(0.5 * lv)
        return mu + torch.randn_like(std) * std
    def forward(self, x):
        h = F.relu(self.fc1(x.view(-1, 784)))
        mu, lv = self.mu(h), self.lv(h)
        return torch.sigmoid(self.fc3(self.reparameterize(mu, lv))), mu, lv
model = VAE().to(device)
opt = torch.optim.Adam(model.parameters())
def loss_fn(r, x, mu, lv):
    return F.binary_cross_entropy(r, x.view(-1, 784), reduction="sum") - 0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())
train_loss = 0
for i, (x, _) in enumerate(DataLoader(dataset, 128, num_workers=2)):
    x = x.to(device)
    opt.zero_grad()
    r, mu, lv = model(x)
    loss = loss_fn(r, x, mu, lv)
    loss.backward()
    train_loss += loss.item()
    opt.step()
    if i % 10 == 0:
        print(loss.item() / len(x))
with torch.no_grad():
    sample = torch.randn(64, 20).to(device)
    sample = model.fc3(sample).cpu()
""",
    "style transfer": HEAD
    + """
import torchvision.models as models
cnn = models.vgg19(weights="DEFAULT").features.to(device).eval()
mean = torch.tensor([0.485, 0.456, 0.406]).to(device)
std = torch.tensor([0.229, 0.224, 0.225]).to(device)
class Normalize(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.std = torch.tensor(std).view(-1, 1, 1)
    def forward(self, img):
        return (img - self.mean) / self.std
norm = Normalize(mean, std).to(device)
img = torch.rand(1, 3, 64, 64, device=device).requires_grad_(True)
opt = torch.optim.LBFGS([img])
for i in range(10):
    def closure():
        opt.zero_grad()
        loss = cnn(norm(img)).pow(2).mean()
        loss.backward()
        return loss
    opt.step(closure)
""",
    "inference service": HEAD
    + """
import numpy as np
from PIL import Image
class Predictor:
    def __init__(self, path):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = Net()
        self.model.load_state_dict(torch.load(path, map_location=self.device))
        self.model.to(self.device).eval()
    @torch.inference_mode()
    def __call__(self, image):
        x = torch.from_numpy(np.asarray(image).copy()).float().div(255).permute(2, 0, 1)[None].to(self.device)
        return self.model(x).softmax(-1).cpu().numpy()[0]
p = Predictor("w.pt")
for f in ["a.png"]:
    print(p(Image.open(f)))
""",
    "seq2seq tokens normalised": TRAINED
    + """
accum, pad = 4, 0
batches = []
for batch in loader:
    batches.append(batch)
    if len(batches) < accum:
        continue
    num_tokens = sum((t != pad).sum().item() for _, t in batches)
    for ids, t in batches:
        logits = model(ids.to(device))
        loss = F.cross_entropy(logits.flatten(0, 1), t.to(device).flatten(), ignore_index=pad, reduction="sum") / num_tokens
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    batches = []
""",
    "custom optimizer step fn": HEAD
    + """
class Engine:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch.device(cfg.device)
        self.model = Net().to(self.device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, 10)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=cfg.amp)
    def step(self, x, y):
        with torch.autocast(self.device.type, enabled=self.cfg.amp):
            loss = F.cross_entropy(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad(set_to_none=True)
        return loss.detach()
    def fit(self, loader):
        for epoch in range(10):
            total = torch.zeros((), device=self.device)
            for x, y in loader:
                total += self.step(x.to(self.device), y.to(self.device))
            self.sched.step()
            print(total.item() / len(loader))
""",
    "masks on gpu": TRAINED
    + """
mask = torch.ones(10, dtype=torch.bool, device=device)
weights = torch.tensor([1.0] * 10).to(device)
crit = nn.CrossEntropyLoss(weight=weights)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    out = model(x)
    out = out.masked_fill(~mask, -1e9)
    loss = crit(out, y) + 0.1 * torch.tensor(1.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    perm = torch.randperm(x.size(0))
    x = x[perm]
""",
    "mixup": TRAINED
    + """
import numpy as np
for x, y in loader:
    x, y = x.to(device), y.to(device)
    lam = np.random.beta(0.2, 0.2)
    idx = torch.randperm(x.size(0), device=x.device)
    mixed = lam * x + (1 - lam) * x[idx]
    out = model(mixed)
    loss = lam * criterion(out, y) + (1 - lam) * criterion(out, y[idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "cpu metrics": TRAINED
    + """
conf = torch.zeros(10, 10)
correct = torch.zeros(10)
with torch.no_grad():
    for x, y in loader:
        pred = model(x.to(device)).argmax(1).cpu()
        for t, p in zip(y, pred):
            conf[t, p] += 1
        correct += (pred == y).float().sum()
print(conf.diag() / conf.sum(1))
""",
    "ema": TRAINED
    + """
import copy
ema = copy.deepcopy(model).eval()
for p in ema.parameters():
    p.requires_grad_(False)
@torch.no_grad()
def update(ema, net, d=0.999):
    for e, p in zip(ema.parameters(), net.parameters()):
        e.mul_(d).add_(p, alpha=1 - d)
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x.to(device)), y.to(device)).backward()
    optimizer.step()
    update(ema, model)
""",
    "contrastive frozen teacher": TRAINED
    + """
teacher = Net().to(device).eval().requires_grad_(False)
for x, y in loader:
    x = x.to(device)
    with torch.no_grad():
        t = teacher(x)
    loss = F.kl_div(model(x).log_softmax(-1), t.softmax(-1), reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "single device data parallel": TRAINED
    + """
model = nn.DataParallel(model, device_ids=[0])
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y.to(device)).backward()
    optimizer.step()
""",
    "in memory": HEAD
    + """
x, y = torch.randn(1000, 64), torch.randint(0, 10, (1000,))
loader = DataLoader(TensorDataset(x, y), batch_size=128, shuffle=True)
model = Net().to(device)
opt = torch.optim.Adam(model.parameters())
for xb, yb in loader:
    loss = F.cross_entropy(model(xb.to(device)), yb.to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "manual sgd": HEAD
    + """
w = torch.randn(64, 10, device=device, requires_grad=True)
for x, y in DataLoader(dataset, 8, num_workers=2):
    loss = F.cross_entropy(x.to(device) @ w, y.to(device))
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad.zero_()
""",
    "graph net": HEAD
    + """
from torch_geometric.loader import DataLoader as GeoLoader
from torch_geometric.nn import GCNConv, global_mean_pool
class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(8, 16)
        self.fc = nn.Linear(16, 2)
    def forward(self, data):
        return self.fc(global_mean_pool(self.conv(data.x, data.edge_index).relu(), data.batch))
model = GCN().to(device)
opt = torch.optim.Adam(model.parameters())
for data in GeoLoader(dataset, batch_size=32, shuffle=True):
    data = data.to(device)
    loss = F.cross_entropy(model(data), data.y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "hf custom loop": HEAD.replace('torch.device("cuda" if torch.cuda.is_available() else "cpu")', 'torch.device("cpu")')
        + """et("glue", "mrpc")
ds = raw.map(lambda b: tok(b["sentence1"], b["sentence2"], truncation=True), batched=True).with_format("torch")
train = DataLoader(ds["train"], shuffle=True, batch_size=8, collate_fn=DataCollatorWithPadding(tok))
ev = DataLoader(ds["validation"], batch_size=8, collate_fn=DataCollatorWithPadding(tok))
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=2)
model.to(device)
opt = torch.optim.AdamW(model.parameters(), lr=5e-5)
sched = get_scheduler("linear", optimizer=opt, num_warmup_steps=0, num_training_steps=len(train))
bar = tqdm(range(len(train)))
model.train()
for batch in train:
    batch = {k: v.to(device) for k, v in batch.items()}
    outputs = model(**batch)
    loss = outputs.loss
    loss.backward()
    opt.step()
    sched.step()
    opt.zero_grad()
    bar.update(1)
import evaluate
metric = evaluate.load("glue", "mrpc")
model.eval()
for batch in ev:
    batch = {k: v.to(device) for k, v in batch.items()}
    with torch.no_grad():
        outputs = model(**batch)
    metric.add_batch(predictions=outputs.logits.argmax(-1), references=batch["labels"])
print(metric.compute())
""",
    "peft lora": """\
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTTrainer, SFTConfig
bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-70b-hf", quantization_config=bnb, device_map={"": 0})
model = get_peft_model(prepare_model_for_kbit_training(model), LoraConfig(r=16))
tok = AutoTokenizer.from_pretrained("meta-llama/Llama-2-70b-hf")
tok.pad_token = tok.unk_token
SFTTrainer(model=model, args=SFTConfig("out", gradient_accumulation_steps=8), train_dataset=ds).train()
""",
    "diffusers": """\
import torch
from diffusers import StableDiffusionPipeline
pipe = StableDiffusionPipeline.from_pretrained("runwayml/stable-diffusion-v1-5", torch_dtype=torch.float16)
pipe = pipe.to("cuda")
pipe.enable_attention_slicing()
gen = torch.Generator("cuda").manual_seed(0)
for i in range(4):
    image = pipe("a cat", generator=gen).images[0]
    image.save(f"{i}.png")
""",
    "amp custom": TRAINED
    + """
scaler = torch.amp.GradScaler("cuda")
accum = 4
for i, (x, y) in enumerate(loader):
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(x), y) / accum
    scaler.scale(loss).backward()
    last = i + 1 == len(loader)
    if (i + 1) % accum == 0 or last:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
""",
    "flush after loop": TRAINED
    + """
n = 0
for x, y in loader:
    loss = criterion(model(x.to(device)), y.to(device)) / 8
    loss.backward()
    n += 1
    if n % 8 == 0:
        optimizer.step()
        optimizer.zero_grad()
if n % 8:
    optimizer.step()
    optimizer.zero_grad()
""",
    "class with device property": HEAD
    + """
class Enc(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8))
        self.register_buffer("pe", torch.zeros(100, 8), persistent=False)
    @property
    def device(self):
        return self.w.device
    def forward(self, x):
        t = torch.arange(x.shape[1], device=self.device)
        m = torch.ones(x.shape[1], x.shape[1]).to(x).triu(1).bool()
        n = torch.zeros(x.shape[0], 8).type_as(x)
        k = torch.tensor([1.0, 2.0]).to(x.device)
        s = torch.sqrt(torch.tensor(8.0))
        h = (x @ self.w + self.pe[: x.shape[1]]) / s + t[:, None] + n[:, None]
        return h.masked_fill(m[..., None].any(), 0) * k.sum()
enc = Enc().to(device)
enc(torch.randn(2, 5, 8, device=device))
""",
    "kmeans on gpu": """\
import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.randn(100000, 64, device=device)
c = x[torch.randperm(x.size(0))[:10]]
for it in range(20):
    a = torch.cdist(x, c).argmin(1)
    c = torch.stack([x[a == k].mean(0) for k in range(10)])
print(c.cpu().numpy())
""",
    "opencv video inference": HEAD
    + """
import cv2
model = Net().to(device).eval()
cap = cv2.VideoCapture(0)
while True:
    ok, frame = cap.read()
    if not ok:
        break
    x = torch.from_numpy(cv2.resize(frame, (8, 8))).float().view(1, -1).to(device)
    with torch.inference_mode():
        k = model(x).argmax(1).item()
    cv2.imshow("x", frame)
""",
    "gumbel temperature": TRAINED
    + """
tau = torch.tensor(1.0)
eye = torch.eye(10, device=device)
for step, (x, y) in enumerate(loader):
    x, y = x.to(device), y.to(device)
    z = F.gumbel_softmax(model(x), tau=tau.item())
    loss = ((z / tau - eye[y]) ** 2).sum(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, loss.item())
""",
    "two gpus model parallel": HEAD
    + """
class Split(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 64).to("cuda:0")
        self.b = nn.Linear(64, 10).to("cuda:1")
    def forward(self, x):
        return self.b(F.relu(self.a(x.to("cuda:0"))).to("cuda:1"))
m = Split()
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for x, y in DataLoader(dataset, 8, num_workers=2):
    opt.zero_grad()
    F.cross_entropy(m(x), y.to("cuda:1")).backward()
    opt.step()
""",
    "jit and compile": TRAINED
    + """
net = torch.compile(model)
for x, y in loader:
    optimizer.zero_grad()
    criterion(net(x.to(device)), y.to(device)).backward()
    optimizer.step()
script = torch.jit.script(model.eval())
script.save("m.pt")
""",
    "torchmetrics": TRAINED
    + """
from torchmetrics.classification import MulticlassAccuracy
acc = MulticlassAccuracy(10).to(device)
model.eval()
with torch.no_grad():
    for x, y in loader:
        acc.update(model(x.to(device)), y.to(device))
print(acc.compute().item())
""",
    "ignite": TRAINED
    + """
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
trainer = create_supervised_trainer(model, optimizer, criterion, device=device)
evaluator = create_supervised_evaluator(model, device=device)
@trainer.on(Events.EPOCH_COMPLETED)
def run(engine):
    evaluator.run(loader)
trainer.run(loader, max_epochs=2)
""",
    "pretrain labels": HEAD
    + """
class MLM(nn.Module):
    def __init__(self, v=30522, d=64):
        super().__init__()
        self.emb = nn.Embedding(v, d, padding_idx=0)
        self.out = nn.Linear(d, v)
    def forward(self, ids):
        return self.out(self.emb(ids))
def mask(ids, p=0.15):
    labels = ids.clone()
    prob = torch.full(labels.shape, p, device=ids.device)
    hit = torch.bernoulli(prob).bool()
    labels[~hit] = -100
    ids[hit] = 103
    return ids, labels
m = MLM().to(device)
opt = torch.optim.AdamW(m.parameters())
for ids in DataLoader(dataset, 8, num_workers=2):
    ids, labels = mask(ids.to(device))
    loss = F.cross_entropy(m(ids).view(-1, 30522), labels.view(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "list of own layers also registered": HEAD
    + """
class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.order = [self.a, self.b]
        self.frozen = [Net().eval().requires_grad_(False)]
        layers = [nn.Linear(4, 4) for _ in range(3)]
        self.seq = nn.Sequential(*layers)
        self.table = {"relu": nn.ReLU(), "gelu": nn.GELU()}
    def forward(self, x):
        for l in self.order:
            x = l(x)
        return self.table["relu"](self.seq(x))
A().to(device)(torch.randn(2, 4, device=device))
""",
    "add_module loop": HEAD
    + """
class A(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = []
        for i in range(n):
            l = nn.Linear(4, 4)
            self.add_module(f"l{i}", l)
            self.layers.append(l)
    def forward(self, x):
        for l in self.layers:
            x = l(x)
        return x
""",
    "logging list of scalars": TRAINED
    + """
history = {"loss": [], "lr": []}
for epoch in range(2):
    total = 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * x.size(0)
    history["loss"].append(total / len(loader.dataset))
    print(f"epoch {epoch}: {history['loss'][-1]:.4f}")
""",
    "loss dict on cpu": TRAINED
    + """
import numpy as np
y_true, y_pred = [], []
model.eval()
with torch.inference_mode():
    for x, y in loader:
        p = model(x.to(device))
        y_true.extend(y.numpy())
        y_pred.extend(p.argmax(1).cpu().numpy())
print((np.array(y_true) == np.array(y_pred)).mean())
""",
    "rnn hidden init": HEAD
    + """
class RNN(nn.Module):
    def __init__(self, h=8):
        super().__init__()
        self.h = h
        self.lstm = nn.LSTM(4, h, batch_first=True)
        self.fc = nn.Linear(h, 1)
    def init_hidden(self, n):
        return (torch.zeros(1, n, self.h).to(device), torch.zeros(1, n, self.h, device=device))
    def forward(self, x):
        h0 = torch.zeros(1, x.size(0), self.h).to(x.device)
        c0 = x.new_zeros(1, x.size(0), self.h)
        out, _ = self.lstm(x, (h0, c0))
        w = next(self.parameters())
        z = torch.zeros(x.size(0), 1).to(w)
        return self.fc(out[:, -1]) + z
model = RNN().to(device)
model(torch.randn(3, 5, 4).to(device))
""",
    "embedding with literal data": HEAD
    + """
vocab = ["a", "b", "c"]
emb = nn.Embedding(len(vocab), 4).to(device)
emb(torch.tensor([0, 1, 2], device=device))
cls = nn.Linear(4, 3).to(device)
F.cross_entropy(cls(emb(torch.tensor([0, 2], device=device))), torch.tensor([2, 0], device=device))
F.cross_entropy(cls(torch.randn(4, 4, device=device)), torch.randint(0, 3, (4,), device=device))
logits = cls(torch.randn(4, 4, device=device)).view(2, 6)
F.cross_entropy(logits, torch.tensor([5, 1], device=device))
""",
    "pooling after cpu": TRAINED
    + """
cache = {}
for i, (x, y) in enumerate(loader):
    with torch.no_grad():
        f = model(x.to(device))
    f = f.cpu()
    cache[i] = (f, y)
    d = (f[:, None] - f[None]).norm(dim=-1)
    same = y[:, None] == y[None]
    print(d[same].mean().item())
""",
    "ternary device tensors": HEAD
    + """
use_gpu = torch.cuda.is_available()
net = Net()
if use_gpu:
    net = net.cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(dataset, 8, num_workers=2):
    if use_gpu:
        x, y = x.cuda(), y.cuda()
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    acc = (net(x).argmax(1) == y).float().mean()
    loss.backward()
    opt.step()
""",
    "FloatTensor alias": HEAD
    + """
from torch.autograd import Variable
cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
net = Net()
if cuda:
    net.cuda()
for x, _ in DataLoader(dataset, 8, num_workers=2):
    valid = Variable(Tensor(x.size(0), 1).fill_(1.0), requires_grad=False)
    real = Variable(x.type(Tensor))
    loss = ((net(real).mean(1, keepdim=True) - valid) ** 2).mean()
    loss.backward()
""",
    "prefetcher": HEAD
    + """
class Prefetcher:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.preload()
    def preload(self):
        try:
            self.x, self.y = next(self.loader)
        except StopIteration:
            self.x = None
            return
        with torch.cuda.stream(self.stream):
            self.x = self.x.cuda(non_blocking=True)
            self.y = self.y.cuda(non_blocking=True)
    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        x, y = self.x, self.y
        self.preload()
        return x, y
net = Net().cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
p = Prefetcher(DataLoader(dataset, 8, num_workers=2, pin_memory=True))
x, y = p.next()
while x is not None:
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    x, y = p.next()
""",
    "ppo clean": HEAD
    + """
import numpy as np
import gymnasium as gym
envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 4)
agent = nn.Linear(4, 2).to(device)
opt = torch.optim.Adam(agent.parameters())
obs = torch.zeros((128, 4, 4)).to(device)
acts = torch.zeros((128, 4)).to(device)
rews = torch.zeros((128, 4)).to(device)
nxt = torch.Tensor(envs.reset()[0]).to(device)
for update in range(10):
    for t in range(128):
        obs[t] = nxt
        with torch.no_grad():
            a = torch.distributions.Categorical(logits=agent(nxt)).sample()
        acts[t] = a
        o, r, d, tr, info = envs.step(a.cpu().numpy())
        rews[t] = torch.tensor(r).to(device).view(-1)
        nxt = torch.Tensor(o).to(device)
    inds = np.arange(512)
    for epoch in range(4):
        np.random.shuffle(inds)
        for s in range(0, 512, 128):
            mb = inds[s:s + 128]
            logits = agent(obs.reshape(-1, 4)[mb])
            loss = F.cross_entropy(logits, acts.reshape(-1)[mb].long()) * rews.reshape(-1)[mb].mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            opt.step()
    print(update, loss.item())
""",
    "knn eval cpu bank": TRAINED
    + """
bank, labels = [], []
with torch.no_grad():
    for x, y in loader:
        bank.append(F.normalize(model(x.to(device)), dim=1).cpu())
        labels.append(y)
bank, labels = torch.cat(bank), torch.cat(labels)
sims = bank @ bank.T
print((labels[sims.topk(2).indices[:, 1]] == labels).float().mean())
""",
    "class weights and focal": HEAD
    + """
class Focal(nn.Module):
    def __init__(self, alpha, gamma=2.0):
        super().__init__()
        self.register_buffer("alpha", torch.tensor(alpha))
        self.gamma = gamma
    def forward(self, x, y):
        ce = F.cross_entropy(x, y, reduction="none")
        return (self.alpha[y] * (1 - torch.exp(-ce)) ** self.gamma * ce).mean()
model, crit = Net().to(device), Focal([0.1] * 10).to(device)
w = torch.tensor([1.0] * 10, device=device)
for x, y in DataLoader(dataset, 8, num_workers=2):
    x, y = x.to(device), y.to(device)
    loss = crit(model(x), y) + F.cross_entropy(model(x), y, weight=w) + nn.CrossEntropyLoss(weight=w)(model(x), y)
    loss.backward()
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_silence(name: str) -> None:
    assert linted(PROGRAMS[name]) == []
