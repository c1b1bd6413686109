# expect: clear
# ruff: noqa
"""Deep Q-learning on a toy environment: replay memory on the CPU, target network, epsilon-greedy choice."""
import random
from collections import deque, namedtuple

import torch
from torch import nn, optim

Transition = namedtuple("Transition", "state action next_state reward")
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Env:
    def reset(self):
        self.t, self.s = 0, torch.zeros(4)
        return self.s.tolist()

    def step(self, action):
        self.t += 1
        self.s = self.s + torch.tensor([0.1, -0.1, 0.05, 0.0]) * (1 if action else -1)
        return self.s.tolist(), 1.0, self.t >= 20


def net():
    return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2)).to(device)


policy, target = net(), net()
target.load_state_dict(policy.state_dict())
optimizer = optim.AdamW(policy.parameters(), lr=1e-4, amsgrad=True)
memory = deque([], maxlen=1000)
env = Env()


def optimize(batch_size=16):
    if len(memory) < batch_size:
        return
    batch = Transition(*zip(*random.sample(memory, batch_size)))
    mask = torch.tensor([s is not None for s in batch.next_state], device=device, dtype=torch.bool)
    following = torch.cat([s for s in batch.next_state if s is not None])
    values = policy(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
    ahead = torch.zeros(batch_size, device=device)
    with torch.no_grad():
        ahead[mask] = target(following).max(1).values
    loss = nn.SmoothL1Loss()(values, (ahead * 0.99 + torch.cat(batch.reward)).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
    optimizer.step()


for episode in range(3):
    state = torch.tensor(env.reset(), dtype=torch.float32, device=device).unsqueeze(0)
    done = False
    while not done:
        if random.random() > 0.5:
            with torch.no_grad():
                action = policy(state).max(1).indices.view(1, 1)
        else:
            action = torch.tensor([[random.randrange(2)]], device=device)
        observation, reward, done = env.step(action.item())
        following = None if done else torch.tensor(observation, dtype=torch.float32, device=device).unsqueeze(0)
        memory.append(Transition(state, action, following, torch.tensor([reward], device=device)))
        state = following
        optimize()
        weights = target.state_dict()
        for key, value in policy.state_dict().items():
            weights[key] = value * 0.005 + weights[key] * 0.995
        target.load_state_dict(weights)
