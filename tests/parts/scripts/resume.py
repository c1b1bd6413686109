# expect: clear
# options: --steps 6
# ruff: noqa
"""Saves a checkpoint, starts anew, resumes with map_location, goes on."""
import os
import tempfile

import torch
from torch import nn

path = os.path.join(tempfile.mkdtemp(), "last.pth")


def build():
    model = nn.Sequential(nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 2)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)


def steps(model, optimizer, scheduler, n):
    for _ in range(n):
        loss = nn.functional.cross_entropy(model(torch.randn(16, 12).cuda()), torch.randint(0, 2, (16,)).cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()


model, optimizer, scheduler = build()
steps(model, optimizer, scheduler, 2)
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "rng": torch.cuda.get_rng_state()}, path)
model, optimizer, scheduler = build()
checkpoint = torch.load(path, map_location="cpu", weights_only=True)
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
scheduler.load_state_dict(checkpoint["scheduler"])
torch.cuda.set_rng_state(checkpoint["rng"])
steps(model, optimizer, scheduler, 2)
