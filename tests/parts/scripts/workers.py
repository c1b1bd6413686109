# expect: clear
# ruff: noqa
"""Two worker processes, a collate function, pinned memory, non-blocking copies."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return {"image": torch.randn(3, 32, 32, generator=generator), "label": index % 4}


def collate(rows):
    return {"image": torch.stack([row["image"] for row in rows]), "label": torch.tensor([row["label"] for row in rows])}


if __name__ == "__main__":
    loader = DataLoader(Pictures(256), 16, shuffle=True, num_workers=2, pin_memory=True, persistent_workers=True, collate_fn=collate, drop_last=True)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 900, 4)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for batch in loader:
        image = batch["image"].cuda(non_blocking=True)
        label = batch["label"].cuda(non_blocking=True)
        loss = nn.functional.cross_entropy(model(image), label)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
