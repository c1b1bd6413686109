# expect: oom-outputs-kept-on-gpu | oom-graph-retained | oom-eval-with-grad
# options: --gpu-memory 2GiB
# ruff: noqa
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 1)).cuda().eval()
predictions = []
with torch.no_grad():
    for _ in range(40):
        predictions.append(model(torch.randn(16, 3, 128, 128, device="cuda")))
print(torch.cat(predictions).argmax(1).float().mean())
