# expect: clear
# ruff: noqa
import torch
from torch import nn

model = nn.Sequential(nn.Conv1d(40, 64, 3, padding=1), nn.ReLU(), nn.Conv1d(64, 30, 1)).to("cuda")
ctc, optimizer = nn.CTCLoss(blank=0, zero_infinity=True), torch.optim.AdamW(model.parameters(), 3e-4)
for _ in range(4):
    audio = torch.randn(4, 40, 80, device="cuda")
    targets, lengths = torch.randint(1, 30, (4, 12)), torch.tensor([12, 9, 11, 7])
    log_probs = model(audio).permute(2, 0, 1).log_softmax(2)
    loss = ctc(log_probs, targets.cuda(), torch.full((4,), 80, dtype=torch.long), lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
