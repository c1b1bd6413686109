# expect: optimizer-before-move
# ruff: noqa
import torch
from torch import nn

model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1))
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
model.cuda()
for _ in range(3):
    loss = model(torch.randn(5, 10, device="cuda")).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
