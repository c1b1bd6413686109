# expect: input-not-moved
# ruff: noqa
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")
model = nn.Linear(12, 2).to(device)
criterion = nn.CrossEntropyLoss()
for inputs, labels in DataLoader(TensorDataset(torch.randn(40, 12), torch.randint(0, 2, (40,))), batch_size=10):
    outputs = model(inputs.to(device))
    loss = criterion(outputs, labels)
    loss.backward()
