# expect: tensor-created-on-cpu
# ruff: noqa
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.positions = nn.Embedding(64, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, ids):
        places = torch.arange(ids.shape[1]).unsqueeze(0)
        return self.layer(self.embed(ids) + self.positions(places))


model = Encoder().cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    out = model(torch.randint(0, 100, (4, 20)).cuda())
    out.mean().backward()
    optimizer.step()
