# expect: dtype-mismatch | not-gpu-related
# ruff: noqa
import numpy as np
import torch
from torch import nn

labels = np.arange(32, dtype=np.int32) % 4
model = nn.Linear(6, 4).cuda()
for start in range(0, 32, 8):
    x, y = torch.randn(8, 6).cuda(), torch.from_numpy(labels[start : start + 8]).cuda()
    nn.functional.cross_entropy(model(x), y).backward()
