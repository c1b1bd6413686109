# expect: clear
# ruff: noqa
import torch
from torch import nn

torch.set_float32_matmul_precision("high")
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2).cuda()
head = nn.Linear(64, 12).cuda()
compiled = torch.compile(model)
optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()])
for _ in range(5):
    x = torch.randn(8, 40, 64, device="cuda")
    loss = nn.functional.cross_entropy(head(compiled(x).mean(1)), torch.randint(0, 12, (8,), device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
