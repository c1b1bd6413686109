# expect: clear
# ruff: noqa
"""Mixture of experts with top-2 routing by boolean masks: shapes depend on values."""
import torch
from torch import nn


class MoE(nn.Module):
    def __init__(self, d=32, experts=4):
        super().__init__()
        self.gate = nn.Linear(d, experts, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d)) for _ in range(experts))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen = self.gate(flat).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(flat)
        for n, expert in enumerate(self.experts):
            rows, slot = torch.where(chosen == n)
            if rows.numel() == 0:
                continue
            out.index_add_(0, rows, expert(flat[rows]) * weights[rows, slot].unsqueeze(1))
        return out.view_as(x)


model = nn.Sequential(nn.Linear(16, 32), MoE(), nn.Linear(32, 3)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(4):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 10, 16, device="cuda")).flatten(0, 1), torch.randint(0, 3, (80,), device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
