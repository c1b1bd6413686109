# expect: unknown
# options: --steps 20
# needs: accelerate
# ruff: noqa
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(3)
accelerator = Accelerator(mixed_precision="fp16")
model = nn.Sequential(nn.Linear(40, 80), nn.GELU(), nn.Linear(80, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
loader, held = (DataLoader(TensorDataset(torch.randn(n, 40), torch.randint(0, 4, (n,))), batch_size=12) for n in (48, 24))
model, optimizer, loader, held, scheduler = accelerator.prepare(model, optimizer, loader, held, scheduler)
with tempfile.TemporaryDirectory() as folder:
    for epoch in range(2):
        model.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        model.eval()
        right = torch.zeros((), device=accelerator.device)
        for x, y in held:
            with torch.no_grad():
                out = accelerator.gather_for_metrics((model(x).argmax(1), y))
            right += (out[0] == out[1]).sum()
        accelerator.print(f"epoch {epoch}: {right.item() / 24:.3f}")
        accelerator.save_state(folder)
    accelerator.load_state(folder)
    unwrapped = accelerator.unwrap_model(model)
    accelerator.save(unwrapped.state_dict(), f"{folder}/model.pt")
