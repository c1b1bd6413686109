# expect: module-not-registered | model-not-moved
# ruff: noqa
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 20)
        self.layers = [nn.Linear(20, 20) for _ in range(3)]
        self.last = nn.Linear(20, 2)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.last(x)


net = Net().to("cuda")
net(torch.randn(4, 10).to("cuda")).sum().backward()
