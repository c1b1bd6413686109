# expect: clear
# ruff: noqa
"""A straight-through estimator and a surrogate gradient, as custom autograd functions."""
import torch
from torch import nn


class Binarize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (1 + x.abs()) ** 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(100, 200), nn.Linear(200, 10)
        self.register_buffer("threshold", torch.full((200,), 0.1))

    def forward(self, x):
        return self.b(Binarize.apply(self.a(x) - self.threshold))


net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(5):
    x, y = torch.randn(64, 100).cuda(), torch.randint(10, (64,)).cuda()
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
