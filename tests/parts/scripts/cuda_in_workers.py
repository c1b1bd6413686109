# expect: cuda-tensor-in-worker | fork-after-cuda-init
# ruff: noqa
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.randn(6).cuda(), torch.tensor(index % 2).cuda()


if __name__ == "__main__":
    model = nn.Linear(6, 2).cuda()
    for x, y in DataLoader(Rows(), batch_size=8, num_workers=2):
        nn.functional.cross_entropy(model(x), y).backward()
