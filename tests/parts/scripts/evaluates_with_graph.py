# expect: oom-graph-retained | oom-eval-with-grad | oom-outputs-kept-on-gpu
# options: --gpu-memory 1.5GiB --steps 9
# ruff: noqa
import torch
from torch import nn

model = nn.Sequential(*(nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()) for _ in range(8))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train():
    for _ in range(3):
        loss = model(torch.randn(8, 16, 64, 64, device="cuda")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def validate():
    model.eval()
    total = 0
    for _ in range(60):
        total += model(torch.randn(8, 16, 64, 64, device="cuda")).mean()
    return total / 60


train()
print("validation", validate())
