# expect: grad-accum-tail-dropped
# options: --steps 9
# ruff: noqa
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(56, 20), torch.randn(56, 1)), batch_size=8)
model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 1)).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i, (x, y) in enumerate(loader):
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda()) / 3
    loss.backward()
    if (i + 1) % 3 == 0:
        optimizer.step()
        optimizer.zero_grad()
