# expect: cuda-tensor-in-worker
# ruff: noqa
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(32, 4).cuda(), torch.randint(0, 2, (32,)).cuda())
model = nn.Linear(4, 2).cuda()
for x, y in DataLoader(data, batch_size=8, pin_memory=True):
    nn.functional.cross_entropy(model(x), y).backward()
