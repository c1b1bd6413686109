import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available else "cpu"
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(1000, 32), torch.randint(0, 4, (1000,)))

for epoch in range(3):
    for i, (x, y) in enumerate(DataLoader(data, batch_size=32, shuffle=True)):
        x.to(device)
        loss = nn.functional.cross_entropy(model(x), y.to(device)) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
