# expect: oom-graph-retained
# options: --gpu-memory 2GiB --steps 100
# ruff: noqa
import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.Adam(model.parameters())
hidden = torch.zeros(4096, 512, device="cuda")
losses = 0
for _ in range(200):
    hidden = model(hidden) + torch.randn(4096, 512, device="cuda")
    loss = hidden.pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
