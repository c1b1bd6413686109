# expect: clear
# options: --steps 12
# ruff: noqa
"""Trains, validates under no_grad, keeps the best checkpoint, loads it again."""
import copy
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

device = "cuda" if torch.cuda.is_available() else "cpu"
data = TensorDataset(torch.randn(120, 16), torch.randint(0, 3, (120,)))
train, valid = random_split(data, [90, 30], generator=torch.Generator().manual_seed(1))
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3)).to(device)
optimizer = torch.optim.Adam(model.parameters())


def run(loader, training):
    model.train(training)
    total, right, seen = 0.0, 0, 0
    with torch.set_grad_enabled(training):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            if training:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item() * len(x)
            right += (out.argmax(1) == y).sum().item()
            seen += len(x)
    return total / seen, right / seen


best, state = float("inf"), None
for _ in range(3):
    run(DataLoader(train, 30, shuffle=True), True)
    loss, accuracy = run(DataLoader(valid, 30), False)
    if loss < best:
        best, state = loss, copy.deepcopy(model.state_dict())
path = os.path.join(tempfile.gettempdir(), "best.pt")
if state is not None:
    torch.save(state, path)
    model.load_state_dict(torch.load(path, map_location=device))
