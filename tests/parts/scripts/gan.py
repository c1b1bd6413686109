# expect: clear
# ruff: noqa
"""Two networks, two optimizers, several backward passes a turn: no accumulation."""
import torch
from torch import nn

device = torch.device("cuda")
generator = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32)).to(device)
critic = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)).to(device)
of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
of_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
for _ in range(6):
    real = torch.randn(24, 32).to(device)
    ones, zeros = torch.ones(24, 1, device=device), torch.zeros(24, 1, device=device)
    of_critic.zero_grad()
    bce(critic(real), ones).backward()
    fake = generator(torch.randn(24, 16, device=device))
    bce(critic(fake.detach()), zeros).backward()
    of_critic.step()
    of_generator.zero_grad()
    bce(critic(fake), ones).backward()
    of_generator.step()
