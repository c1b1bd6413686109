# expect: clear
# ruff: noqa
"""The gradients are divided once, before the step, by the number of tokens in the window."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(128, 20), torch.randn(128, 1)), batch_size=8)
model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 1)).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
seen = 0
for i, (x, y) in enumerate(loader):
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda(), reduction="sum")
    loss.backward()
    seen += len(x)
    if (i + 1) % 4 == 0:
        for p in model.parameters():
            p.grad /= seen
        optimizer.step()
        optimizer.zero_grad()
        seen = 0
