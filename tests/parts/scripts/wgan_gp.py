# expect: clear
# options: --steps 10
# ruff: noqa
"""Gradient penalty: second derivatives through autograd.grad(create_graph=True), five critic steps for one of the generator."""
import torch
from torch import autograd, nn

device = "cuda"
critic = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(), nn.Linear(64, 1)).to(device)
generator = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 32)).to(device)
opt_d, opt_g = torch.optim.Adam(critic.parameters(), 1e-4), torch.optim.Adam(generator.parameters(), 1e-4)


def penalty(real, fake):
    alpha = torch.rand(real.size(0), 1, device=device)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = critic(mixed)
    grads = autograd.grad(score, mixed, torch.ones_like(score), create_graph=True, retain_graph=True, only_inputs=True)[0]
    return ((grads.norm(2, dim=1) - 1) ** 2).mean() * 10


for step in range(12):
    real = torch.randn(16, 32).to(device)
    opt_d.zero_grad()
    fake = generator(torch.randn(16, 8, device=device)).detach()
    loss_d = critic(fake).mean() - critic(real).mean() + penalty(real, fake)
    loss_d.backward()
    opt_d.step()
    if step % 5 == 0:
        opt_g.zero_grad()
        loss_g = -critic(generator(torch.randn(16, 8, device=device))).mean()
        loss_g.backward()
        opt_g.step()
