# expect: dtype-mismatch
# ruff: noqa
import torch
from torch import nn

model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2)).half().cuda()
x = torch.randn(4, 16).cuda()
model(x).sum().backward()
