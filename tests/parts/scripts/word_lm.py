# expect: clear
# ruff: noqa
"""Truncated backpropagation: the hidden state is carried on, detached."""
import torch
from torch import nn


class RNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.rnn, self.decoder = nn.Embedding(200, 64), nn.GRU(64, 64, 2, dropout=0.2), nn.Linear(64, 200)

    def forward(self, x, hidden):
        out, hidden = self.rnn(self.encoder(x), hidden)
        return self.decoder(out).view(-1, 200), hidden


def repackage(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage(v) for v in h)


device = torch.device("cuda")
model = RNN().to(device)
criterion = nn.CrossEntropyLoss()
text = torch.randint(0, 200, (401, 8)).to(device)
hidden, lr, total = torch.zeros(2, 8, 64, device=device), 20.0, 0.0
for i in range(0, 200, 20):
    data, target = text[i : i + 20], text[i + 1 : i + 21].reshape(-1)
    model.zero_grad()
    hidden = repackage(hidden)
    output, hidden = model(data, hidden)
    loss = criterion(output, target)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-lr)
    total += loss.item()
print(total)
