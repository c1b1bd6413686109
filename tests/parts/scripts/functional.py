# expect: unknown
# ruff: noqa
"""Per-sample gradients and MAML by torch.func."""
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()
optimizer = torch.optim.Adam(model.parameters())


def loss_of(params, x, y):
    return nn.functional.mse_loss(functional_call(model, params, (x,)), y)


for _ in range(3):
    x, y = torch.randn(12, 6, device="cuda"), torch.randn(12, 1, device="cuda")
    params = {k: v.detach() for k, v in model.named_parameters()}
    each = vmap(grad(loss_of), in_dims=(None, 0, 0))(params, x.unsqueeze(1), y.unsqueeze(1))
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
    fast = {k: v - 0.1 * grad(loss_of)(dict(model.named_parameters()), x, y)[k] for k, v in model.named_parameters()}
    loss = loss_of(fast, x, y) + 0 * norms.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
