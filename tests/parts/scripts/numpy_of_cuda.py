# expect: numpy-on-cuda-tensor
# ruff: noqa
import numpy as np
import torch
from torch import nn

model = nn.Linear(8, 3).cuda()
scores = []
for _ in range(3):
    out = model(torch.randn(4, 8, device="cuda"))
    scores.append(out.detach().numpy())
print(np.concatenate(scores).mean())
