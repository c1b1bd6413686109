# expect: oom-batch-too-large | oom-model-too-large
# options: --gpu "RTX 3060 12GB"
# ruff: noqa
"""Attention written out over a long sequence: the scores alone are too large."""
import torch
from torch import nn

q, k, v = (nn.Linear(64, 64).cuda() for _ in range(3))
x = torch.randn(4, 16384, 64, device="cuda")
scores = (q(x) @ k(x).transpose(1, 2) / 8).softmax(-1)
loss = (scores @ v(x)).mean()
loss.backward()
