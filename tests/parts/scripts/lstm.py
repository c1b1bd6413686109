# expect: clear
# ruff: noqa
"""A tagger: embedding, LSTM over packed sequences, padding ignored by the loss."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        length = 5 + index % 20
        return torch.randint(1, 500, (length,)), torch.randint(0, 7, (length,))


def collate(rows):
    words, tags = zip(*rows)
    lengths = torch.tensor([len(w) for w in words])
    return pad_sequence(words, batch_first=True), pad_sequence(tags, batch_first=True, padding_value=-100), lengths


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(500, 32, padding_idx=0)
        self.lstm = nn.LSTM(32, 64, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(128, 7)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embed(words), lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(hidden)


device = torch.device("cuda")
model = Tagger().to(device)
optimizer = torch.optim.RMSprop(model.parameters())
loss_of = nn.CrossEntropyLoss(ignore_index=-100)
for words, tags, lengths in DataLoader(Sentences(), batch_size=16, collate_fn=collate):
    scores = model(words.to(device), lengths)  # lengths stay on the CPU, as pack_padded_sequence wants them
    loss = loss_of(scores.transpose(1, 2), tags.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
