# expect: device-side-assert
# ruff: noqa
"""A token was added to the tokenizer, not to the embedding."""
import torch
from torch import nn

embed = nn.Embedding(1000, 16).cuda()
head = nn.Linear(16, 2).cuda()
ids = torch.randint(0, 1000, (4, 12))
ids[2, 5] = 1000
out = head(embed(ids.cuda()).mean(1))
out.sum().backward()
