# expect: invalid-device-ordinal
# ruff: noqa
import torch
from torch import nn

first, second = nn.Linear(8, 8).to("cuda:0"), nn.Linear(8, 2).to("cuda:1")
out = second(first(torch.randn(4, 8, device="cuda:0")).to("cuda:1"))
out.sum().backward()
