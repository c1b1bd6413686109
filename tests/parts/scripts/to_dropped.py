# expect: to-result-discarded | input-not-moved
# ruff: noqa
import torch
from torch import nn

device = torch.device("cuda")
model = nn.Linear(12, 2)
model.to(device)
for _ in range(3):
    x = torch.randn(8, 12)
    x.to(device)
    model(x).sum().backward()
