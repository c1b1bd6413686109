# expect: oom-graph-retained
# ruff: noqa
"""The penalty is kept with its graph, for a plot at the end."""
import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
history = []
for _ in range(8):
    x = torch.randn(1024, 512, device="cuda")
    loss = (model(x) - x).pow(2).mean()
    penalty = model(x + 0.1).pow(2).mean()
    history.append(penalty)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
