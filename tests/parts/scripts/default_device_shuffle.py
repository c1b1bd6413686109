# expect: default-device-cuda | device-mismatch
# ruff: noqa
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_device("cuda")
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(64, 8), torch.randint(0, 2, (64,)))
for x, y in DataLoader(data, batch_size=16, shuffle=True):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
