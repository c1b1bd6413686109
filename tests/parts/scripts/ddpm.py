# expect: clear
# options: --steps 5
# ruff: noqa
"""A small diffusion model: U-Net with time embedding, buffers for the schedule, EMA, sampling loop under no_grad."""
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn


class Res(nn.Module):
    def __init__(self, a, b, t):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, a), nn.Conv2d(a, b, 3, padding=1)
        self.emb = nn.Linear(t, b)
        self.n2, self.c2 = nn.GroupNorm(8, b), nn.Conv2d(b, b, 3, padding=1)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.emb(F.silu(t))[:, :, None, None]
        return self.c2(F.silu(self.n2(h))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 4 * c))
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.d1, self.down, self.d2 = Res(c, c, 4 * c), nn.Conv2d(c, 2 * c, 3, 2, 1), Res(2 * c, 2 * c, 4 * c)
        self.up, self.u1 = nn.ConvTranspose2d(2 * c, c, 2, 2), Res(2 * c, c, 4 * c)
        self.out = nn.Conv2d(c, 3, 3, padding=1)
        self.c = c

    def forward(self, x, t):
        half = self.c // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, device=x.device) / half)
        emb = self.time(torch.cat([(t[:, None] * freqs).sin(), (t[:, None] * freqs).cos()], 1))
        a = self.d1(self.stem(x), emb)
        b = self.d2(self.down(a), emb)
        return self.out(self.u1(torch.cat([self.up(b), a], 1), emb))


class Diffusion(nn.Module):
    def __init__(self, model, steps=50):
        super().__init__()
        self.model, self.steps = model, steps
        betas = torch.linspace(1e-4, 0.02, steps)
        self.register_buffer("betas", betas)
        self.register_buffer("bars", torch.cumprod(1 - betas, 0))

    def forward(self, x):
        t = torch.randint(0, self.steps, (x.shape[0],), device=x.device)
        noise = torch.randn_like(x)
        bar = self.bars[t][:, None, None, None]
        return F.mse_loss(self.model(bar.sqrt() * x + (1 - bar).sqrt() * noise, t.float()), noise)

    @torch.no_grad()
    def sample(self, n):
        x = torch.randn(n, 3, 16, 16, device=self.betas.device)
        for i in reversed(range(self.steps)):
            t = torch.full((n,), float(i), device=x.device)
            eps = self.model(x, t)
            x = (x - self.betas[i] / (1 - self.bars[i]).sqrt() * eps) / (1 - self.betas[i]).sqrt()
            if i > 0:
                x = x + self.betas[i].sqrt() * torch.randn_like(x)
        return x.clamp(-1, 1)


diffusion = Diffusion(UNet()).cuda()
ema = copy.deepcopy(diffusion).requires_grad_(False)
optimizer = torch.optim.Adam(diffusion.parameters(), 2e-4)
for step in range(5):
    loss = diffusion(torch.randn(8, 3, 16, 16).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for a, b in zip(ema.parameters(), diffusion.parameters()):
            a.mul_(0.995).add_(b, alpha=0.005)
print(ema.sample(2).cpu().shape)
