# expect: single-process-dataloader
# ruff: noqa
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Videos(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        time.sleep(0.05)  # decoding
        return torch.randn(3, 16, 16), index % 5


model = nn.Sequential(nn.Flatten(), nn.Linear(768, 5)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(Videos(), batch_size=8):
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
