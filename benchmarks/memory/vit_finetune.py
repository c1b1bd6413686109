"""ViT-L/16 fine-tuned on 224 x 224 images of ten classes: the set-up of rasbt/pytorch-memory-optim (blocks as torchvision's).

Its figures were taken with Lightning Fabric; --dtype bfloat16 is its "bf16-true", --autocast float16 its "16-mixed".
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, LAYERS, HEADS, MLP, PATCH, IMAGE = 1024, 24, 16, 4096, 16, 224


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6), nn.LayerNorm(WIDTH, eps=1e-6)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, dropout=0.0, batch_first=True)
        self.drop = nn.Dropout(0.0)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, MLP), nn.GELU(), nn.Dropout(0.0), nn.Linear(MLP, WIDTH), nn.Dropout(0.0))

    def forward(self, x):
        y = self.norm1(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = self.drop(y) + x
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.zeros(1, (IMAGE // PATCH) ** 2 + 1, WIDTH))
        self.drop = nn.Dropout(0.0)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).permute(0, 2, 1)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)
        return self.head(self.norm(self.blocks(self.drop(x + self.positions)))[:, 0])


class OldAdam(torch.optim.Optimizer):
    """Adam as torch wrote it for lists of tensors before July 2023 (pytorch/pytorch#97712): two temporaries as large as the weights."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        weights = [p for p in self.param_groups[0]["params"] if p.grad is not None]
        grads = [p.grad for p in weights]
        for p in weights:
            if not self.state[p]:
                self.state[p] = {"mean": torch.zeros_like(p), "square": torch.zeros_like(p)}
        means, squares = [self.state[p]["mean"] for p in weights], [self.state[p]["square"] for p in weights]
        torch._foreach_lerp_(means, grads, 0.1)
        torch._foreach_mul_(squares, 0.999)
        torch._foreach_addcmul_(squares, grads, grads, 0.001)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_div_(roots, 1.0)
        bounds = torch._foreach_add(roots, 1e-8)
        torch._foreach_addcdiv_(weights, means, bounds, -self.param_groups[0]["lr"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--autocast")
    parser.add_argument("--optimizer", default="Adam", help="of torch.optim, or OldAdam")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    dtype = getattr(torch, args.dtype)
    model = Vit().cuda().to(dtype)
    optimizer = (OldAdam if args.optimizer == "OldAdam" else getattr(torch.optim, args.optimizer))(model.parameters(), lr=5e-5)
    scaler = torch.amp.GradScaler("cuda", enabled=args.autocast == "float16")
    for step in range(args.steps * args.accumulate):
        images = torch.rand(args.batch, 3, IMAGE, IMAGE).cuda().to(dtype)
        targets = torch.randint(0, 10, (args.batch,)).cuda()
        with torch.autocast("cuda", dtype=torch.float16, enabled=bool(args.autocast)):
            logits = model(images)
        loss = F.cross_entropy(logits.float() if args.autocast else logits, targets) / args.accumulate
        if args.accumulate == 1:
            optimizer.zero_grad()
        scaler.scale(loss).backward()
        if step % args.accumulate == 0:  # the published scripts step on the first micro-batch of a window
            scaler.step(optimizer)
            scaler.update()
            if args.accumulate > 1:
                optimizer.zero_grad()
    mib = 1 << 20
    print(f"peak: {torch.cuda.max_memory_allocated() / mib:.0f} MiB allocated, {torch.cuda.max_memory_reserved() / mib:.0f} MiB reserved")


if __name__ == "__main__":
    main()
