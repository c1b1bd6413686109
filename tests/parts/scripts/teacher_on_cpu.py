# expect: model-not-moved
# ruff: noqa
"""Distillation whose teacher was forgotten on the CPU; its logits are moved one by one."""
import torch
from torch import nn

student = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 10)).cuda()
teacher = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).eval()
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(4):
    x = torch.randn(16, 3, 64, 64)
    with torch.no_grad():
        wanted = teacher(x).cuda().softmax(1)
    loss = nn.functional.cross_entropy(student(x.cuda()), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
