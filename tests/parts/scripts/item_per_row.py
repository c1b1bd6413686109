# expect: sync-in-hot-loop
# ruff: noqa
"""Counts hits row by row, reading each from the GPU."""
import torch
from torch import nn

model = nn.Linear(32, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    x, y = torch.randn(64, 32, device="cuda"), torch.randint(0, 10, (64,), device="cuda")
    out = model(x)
    loss = nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    right = 0
    for row in range(64):
        if out[row].argmax().item() == y[row].item():
            right += 1
    print(right)
