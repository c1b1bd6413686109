# expect: not-gpu-related
# ruff: noqa
import torch
from torch import nn

model = nn.Linear(8, 3).cuda()
table = {"train": 3}
out = model(torch.randn(4, 8, device="cuda"))
print(out.shape, table["valid"])
