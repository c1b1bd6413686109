# expect: clear
# ruff: noqa
"""Features of a data set, on the GPU and brought back batch by batch."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).half().cuda().eval()
loader = DataLoader(TensorDataset(torch.randn(160, 3, 48, 48)), batch_size=32)
features = []
with torch.inference_mode():
    for (images,) in loader:
        features.append(model(images.cuda().half()).cpu())
print(torch.cat(features).shape)
