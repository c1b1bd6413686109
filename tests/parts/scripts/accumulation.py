# expect: clear
# ruff: noqa
"""Gradient accumulation as it should be: scaled, and the last window is stepped too."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 4
loader = DataLoader(TensorDataset(torch.randn(88, 20), torch.randn(88, 1)), batch_size=8, pin_memory=True)
model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 1)).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i, (x, y) in enumerate(loader):
    left = len(loader) - i // STEPS * STEPS
    loss = nn.functional.mse_loss(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)) / min(STEPS, left)
    loss.backward()
    if (i + 1) % STEPS == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
