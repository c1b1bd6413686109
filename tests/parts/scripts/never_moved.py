# expect: model-not-moved
# ruff: noqa
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print("using", device)
model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(6):
    images, labels = torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,))
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
