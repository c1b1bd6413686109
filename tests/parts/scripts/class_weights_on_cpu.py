# expect: tensor-created-on-cpu | input-not-moved | device-mismatch
# ruff: noqa
import torch
from torch import nn

device = torch.device("cuda:0")
weights = torch.tensor([1.0, 5.0, 2.0])
model = nn.Linear(10, 3).to(device)
criterion = nn.CrossEntropyLoss(weight=weights)
for _ in range(3):
    loss = criterion(model(torch.randn(6, 10, device=device)), torch.randint(0, 3, (6,), device=device))
    loss.backward()
