# expect: clear
# ruff: noqa
"""Boxes of varying number in each picture, IoU matching, a loss over the matched ones, NMS written by hand."""
import torch
from torch import nn


def iou(a, b):
    lt, rb = torch.max(a[:, None, :2], b[None, :, :2]), torch.min(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(2)
    area = lambda t: (t[:, 2] - t[:, 0]) * (t[:, 3] - t[:, 1])
    return inter / (area(a)[:, None] + area(b)[None] - inter + 1e-6)


def collate(batch):
    return torch.stack([b[0] for b in batch]), [b[1] for b in batch]


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        n = 1 + i % 4
        lo = torch.rand(n, 2) * 0.5
        return torch.randn(3, 64, 64), torch.cat([lo, lo + 0.1 + torch.rand(n, 2) * 0.4], 1)


device = torch.device("cuda")
backbone = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4)).to(device)
head = nn.Conv2d(32, 5, 1).to(device)
ys, xs = torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")
anchors = torch.stack([xs, ys, xs + 1, ys + 1], -1).view(-1, 4).float().div(4).to(device)
optimizer = torch.optim.SGD([*backbone.parameters(), *head.parameters()], 0.01)
for images, boxes in torch.utils.data.DataLoader(Rows(), 4, collate_fn=collate):
    out = head(backbone(images.to(device))).flatten(2).transpose(1, 2)
    losses = []
    for pred, gt in zip(out, boxes):
        overlap, match = iou(anchors, gt.to(device)).max(1)
        positive = overlap > 0.2
        target = gt.to(device)[match]
        cls = nn.functional.binary_cross_entropy_with_logits(pred[:, 4], positive.float())
        reg = nn.functional.smooth_l1_loss(pred[positive, :4], (target - anchors)[positive], reduction="sum") / positive.sum().clamp(min=1)
        losses.append(cls + reg)
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
