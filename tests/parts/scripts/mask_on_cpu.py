# expect: tensor-created-on-cpu | device-mismatch
# ruff: noqa
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2)
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), diagonal=1)
        return (scores + mask).softmax(-1) @ x


model = Attention().to("cuda")
model(torch.randn(2, 10, 16, device="cuda")).sum().backward()
