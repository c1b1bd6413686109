# expect: tensor-created-on-cpu | input-not-moved | device-mismatch
# ruff: noqa
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 2)

    def init_hidden(self, batch):
        return torch.zeros(1, batch, 16), torch.zeros(1, batch, 16)

    def forward(self, x):
        out, _ = self.lstm(x, self.init_hidden(x.size(0)))
        return self.out(out[:, -1])


net = Net().to("cuda")
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    loss = net(torch.randn(4, 12, 8).to("cuda")).sum()
    loss.backward()
    optimizer.step()
