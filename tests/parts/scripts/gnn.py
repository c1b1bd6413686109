# expect: clear
# ruff: noqa
"""Message passing with index_add and a readout per graph."""
import torch
from torch import nn


class Conv(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.lin = nn.Linear(a, b)

    def forward(self, x, edges):
        src, dst = edges
        out = torch.zeros_like(x).index_add_(0, dst, x[src])
        deg = torch.zeros(x.shape[0], 1, device=x.device).index_add_(0, dst, torch.ones(len(dst), 1, device=x.device))
        return torch.relu(self.lin(out / deg.clamp(min=1)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2, self.out = Conv(16, 32), Conv(32, 32), nn.Linear(32, 2)

    def forward(self, x, edges, graph, graphs):
        x = self.c2(self.c1(x, edges), edges)
        pooled = torch.zeros(graphs, 32, device=x.device).scatter_reduce(0, graph[:, None].expand(-1, 32), x, "mean", include_self=False)
        return self.out(pooled)


device = torch.device("cuda:0")
net = Net().to(device)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(4):
    x, edges = torch.randn(100, 16).to(device), torch.randint(0, 100, (2, 400)).to(device)
    graph, y = torch.arange(4).repeat_interleave(25).to(device), torch.randint(0, 2, (4,)).to(device)
    loss = nn.functional.cross_entropy(net(x, edges, graph, 4), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
