# expect: clear
# ruff: noqa
import torch
from torch import nn

model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 1)).cuda()
x, y = torch.randn(64, 10).cuda(), torch.randn(64, 1).cuda()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, history_size=5)
for _ in range(3):

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
print(loss.item())
