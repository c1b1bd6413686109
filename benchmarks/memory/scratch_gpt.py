"""GPT-2 small written out step by step, as textbooks do, and sped up one step at a time: --native, --flash, --dtype, --fused.

The set-up of the table of rasbt/LLMs-from-scratch, ch05/10_llm-training-speed (written anew: same operations, other words).
"""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, CONTEXT, DROP = 768, 12, 12, 1024, 0.1


class PlainNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.shift = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        var = x.var(dim=-1, keepdim=True, unbiased=False)
        normal = (x - mean) / torch.sqrt(var + 1e-5)
        return self.scale * normal + self.shift


class PlainGelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(torch.sqrt(torch.tensor(2.0 / math.pi)) * (x + 0.044715 * torch.pow(x, 3))))


class PlainAttention(nn.Module):
    """Scores, mask, softmax and dropout spelled out. The mask is kept as a float buffer, or made on the fly."""

    def __init__(self, keep_mask: bool) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.drop = nn.Dropout(DROP)
        self.keep_mask = keep_mask
        if keep_mask:
            self.register_buffer("mask", torch.ones(CONTEXT, CONTEXT).triu(1))

    def forward(self, x):
        batch, tokens, _ = x.shape
        query, key, value = (part(x).view(batch, tokens, HEADS, -1).transpose(1, 2) for part in (self.query, self.key, self.value))
        scores = query @ key.transpose(2, 3)
        if self.keep_mask:
            mask = self.mask.bool()[:tokens, :tokens]
        else:
            mask = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
        scores.masked_fill_(mask, -torch.inf)
        weights = self.drop(torch.softmax(scores / key.shape[-1] ** 0.5, dim=-1))
        return self.out((weights @ value).transpose(1, 2).reshape(batch, tokens, WIDTH))


class FlashAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, tokens, _ = x.shape
        query, key, value = self.qkv(x).view(batch, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=DROP if self.training else 0.0, is_causal=True)
        return self.out(mixed.transpose(1, 2).contiguous().view(batch, tokens, WIDTH))


class Block(nn.Module):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        norm = (lambda: nn.LayerNorm(WIDTH)) if args.native else PlainNorm
        gelu = nn.GELU(approximate="tanh") if args.native else PlainGelu()
        self.attention = FlashAttention() if args.flash else PlainAttention(args.keep_mask)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), gelu, nn.Linear(4 * WIDTH, WIDTH))
        self.norm1, self.norm2, self.drop = norm(), norm(), nn.Dropout(DROP)

    def forward(self, x):
        x = self.drop(self.attention(self.norm1(x))) + x
        return self.drop(self.feed(self.norm2(x))) + x


class Gpt(nn.Module):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(args.vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.drop = nn.Dropout(DROP)
        self.blocks = nn.Sequential(*(Block(args) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH) if args.native else PlainNorm()
        self.head = nn.Linear(WIDTH, args.vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(self.drop(x))))


def loss_of(model: nn.Module, batch: int) -> torch.Tensor:
    ids = torch.randint(0, 50000, (batch, CONTEXT)).cuda()
    targets = torch.randint(0, 50000, (batch, CONTEXT)).cuda()
    return F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--keep-mask", action="store_true")
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--flash", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    model = Gpt(args)
    model.cuda().to(getattr(torch, args.dtype))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, **({"fused": True} if args.fused else {}))
    for step in range(args.steps):
        model.train()
        optimizer.zero_grad()
        loss_of(model, args.batch).backward()
        optimizer.step()
        if step == 0:  # the table's script evaluates one batch of each loader after its first step
            model.eval()
            with torch.no_grad():
                loss_of(model, args.batch), loss_of(model, args.batch)
    mib = 1 << 20
    print(f"peak: {torch.cuda.max_memory_allocated() / mib:.0f} MiB allocated, {torch.cuda.max_memory_reserved() / mib:.0f} MiB reserved")


if __name__ == "__main__":
    main()
