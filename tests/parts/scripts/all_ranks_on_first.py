# expect: ddp-all-ranks-on-gpu0
# options: --launch 2
# ruff: noqa
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


dist.init_process_group("nccl")
model = DistributedDataParallel(nn.Linear(30, 5).cuda())
data = TensorDataset(torch.randn(80, 30), torch.randint(0, 5, (80,)))
loader = DataLoader(data, batch_size=10, sampler=DistributedSampler(data))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(os.environ["RANK"])
