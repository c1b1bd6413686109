# expect: clear
# options: --steps 6
# ruff: noqa
"""Encoder and decoder with attention, one token at a time, teacher forcing by chance; greedy decoding until all ended."""
import random

import torch
from torch import nn

SOS, EOS, VOCAB = 1, 2, 60


class Seq2Seq(nn.Module):
    def __init__(self, h=48):
        super().__init__()
        self.emb, self.enc = nn.Embedding(VOCAB, h, padding_idx=0), nn.LSTM(h, h, batch_first=True)
        self.cell, self.attn, self.out = nn.LSTMCell(2 * h, h), nn.Linear(h, h), nn.Linear(h, VOCAB)

    def encode(self, src):
        out, (h, c) = self.enc(self.emb(src))
        return out, (h[0], c[0])

    def step(self, token, memory, state):
        weights = torch.bmm(memory, self.attn(state[0]).unsqueeze(2)).softmax(1)
        state = self.cell(torch.cat([self.emb(token), (weights * memory).sum(1)], 1), state)
        return self.out(state[0]), state

    def forward(self, src, trg, forcing=0.5):
        memory, state = self.encode(src)
        token, logits = trg[:, 0], []
        for t in range(1, trg.shape[1]):
            logit, state = self.step(token, memory, state)
            logits.append(logit)
            token = trg[:, t] if random.random() < forcing else logit.argmax(1)
        return torch.stack(logits, 1)

    @torch.no_grad()
    def translate(self, src, limit=12):
        memory, state = self.encode(src)
        token = torch.full((src.shape[0],), SOS, device=src.device)
        ended, out = torch.zeros_like(token, dtype=torch.bool), []
        for _ in range(limit):
            logit, state = self.step(token, memory, state)
            token = logit.argmax(1)
            ended |= token == EOS
            out.append(token)
            if ended.all():
                break
        return torch.stack(out, 1).cpu().tolist()


model = Seq2Seq().cuda()
optimizer = torch.optim.Adam(model.parameters())
loss_of = nn.CrossEntropyLoss(ignore_index=0)
for _ in range(4):
    src, trg = torch.randint(3, VOCAB, (8, 10)).cuda(), torch.randint(3, VOCAB, (8, 9)).cuda()
    loss = loss_of(model(src, trg).reshape(-1, VOCAB), trg[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1)
    optimizer.step()
model.eval()
print(len(model.translate(torch.randint(3, VOCAB, (2, 10)).cuda())))
