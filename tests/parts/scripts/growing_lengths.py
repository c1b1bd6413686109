# expect: clear
# ruff: noqa
"""Batches sorted by length, as bucketing gives them: the tensors grow, nothing is kept."""
import torch
from torch import nn

model = nn.Sequential(nn.Embedding(5000, 64), nn.Linear(64, 5000)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for length in (32, 48, 64, 80, 96, 112):
    ids = torch.randint(0, 5000, (16, length)).cuda()
    logits = model(ids)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
