# expect: clear
# ruff: noqa
"""Low-rank adapters on a frozen model in bfloat16: only the adapters train."""
import torch
from torch import nn


class LoRA(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features, dtype=torch.float32) * 0.01)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + (x.float() @ self.a.T @ self.b.T).to(x.dtype)


def adapt(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, LoRA(child))
        else:
            adapt(child)


model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(3)), nn.Linear(64, 5)).to(torch.bfloat16)
adapt(model)
model = model.to("cuda")
trained = [p for p in model.parameters() if p.requires_grad]
print(sum(p.numel() for p in trained), "of", sum(p.numel() for p in model.parameters()))
optimizer = torch.optim.AdamW(trained, lr=1e-4)
for _ in range(4):
    out = model(torch.randn(8, 64, device="cuda", dtype=torch.bfloat16)).float()
    loss = nn.functional.cross_entropy(out, torch.randint(0, 5, (8,), device="cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
