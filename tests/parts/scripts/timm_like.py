# expect: clear
# ruff: noqa
"""In the style of timm's train.py: mixup, EMA of the weights, autocast by a flag, warm-up, a meter read now and then."""
import argparse
import copy
import time
from contextlib import suppress
from functools import partial

import torch
from torch import nn


class Ema(nn.Module):
    def __init__(self, model, decay=0.999):
        super().__init__()
        self.module, self.decay = copy.deepcopy(model).eval(), decay

    @torch.no_grad()
    def update(self, model):
        for ours, theirs in zip(self.module.state_dict().values(), model.state_dict().values()):
            if ours.is_floating_point():
                ours.lerp_(theirs, 1 - self.decay)


class Mixer(nn.Module):
    def __init__(self, width=96, patches=64, depth=4, classes=20):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 8, 8)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"n1": nn.LayerNorm(width), "mix": nn.Linear(patches, patches), "n2": nn.LayerNorm(width), "mlp": nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))})
            for _ in range(depth)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = x + block["mix"](block["n1"](x).transpose(1, 2)).transpose(1, 2)
            x = x + block["mlp"](block["n2"](x))
        return self.head(x.mean(1))


def mixup(x, y, classes, alpha=0.8):
    lam = torch.distributions.Beta(alpha, alpha).sample().item()
    soft = nn.functional.one_hot(y, classes).float()
    return lam * x + (1 - lam) * x.flip(0), lam * soft + (1 - lam) * soft.flip(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    device = torch.device("cuda:0")
    model = Mixer().to(device)
    ema = Ema(model)
    optimizer = torch.optim.AdamW([{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.05}, {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0}], lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 5))
    autocast = partial(torch.autocast, device_type="cuda", dtype=torch.float16) if args.amp else suppress
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    loss_of = nn.CrossEntropyLoss()
    began = time.time()
    for step in range(8 * args.epochs):
        x, y = mixup(torch.randn(16, 3, 64, 64, device=device), torch.randint(0, 20, (16,), device=device), 20)
        with autocast():
            loss = loss_of(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 3.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        ema.update(model)
        if step % 4 == 0:
            torch.cuda.synchronize()
            print(f"{step}: {loss.item():.3f} {16 * (step + 1) / (time.time() - began):.0f} images/s, {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
