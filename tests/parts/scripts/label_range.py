# expect: device-side-assert
# ruff: noqa
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

labels = torch.arange(1, 11).repeat(5)  # 1 to 10, for ten classes
loader = DataLoader(TensorDataset(torch.randn(50, 8), labels), batch_size=10)
model = nn.Linear(8, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
