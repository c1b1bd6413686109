# expect: oom-batch-too-large
# options: --gpu "RTX 2080 Ti"
# ruff: noqa
import torch
from torch import nn

model = nn.Sequential(*(nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()) for _ in range(6)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(4):
    x, y = torch.randn(1024, 64, 64, 64, device="cuda"), torch.randint(0, 10, (1024,), device="cuda")
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
