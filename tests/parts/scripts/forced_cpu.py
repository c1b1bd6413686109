# expect: model-not-moved | config-forces-cpu
# ruff: noqa
"""Left over from debugging on a laptop."""
import torch
from torch import nn

DEVICE = torch.device("cpu")
model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5)).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 3, 32, 32).to(DEVICE)), torch.randint(0, 5, (8,)).to(DEVICE))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
