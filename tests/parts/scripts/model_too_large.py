# expect: oom-model-too-large
# options: --gpu T4
# ruff: noqa
import torch
from torch import nn

with torch.device("cuda"):
    model = nn.Sequential(*(nn.Linear(8192, 8192) for _ in range(20)))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = model(torch.randn(2, 8192, device="cuda")).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
