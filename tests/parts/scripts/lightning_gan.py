# expect: clear
# needs: lightning
# ruff: noqa
"""Manual optimization of two networks."""
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class GAN(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.g, self.d = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16)), nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

    def training_step(self, batch, index):
        (real,) = batch
        opt_g, opt_d = self.optimizers()
        fake = self.g(torch.randn(real.size(0), 8, device=self.device))
        loss_d = nn.functional.softplus(-self.d(real)).mean() + nn.functional.softplus(self.d(fake.detach())).mean()
        opt_d.zero_grad()
        self.manual_backward(loss_d)
        opt_d.step()
        loss_g = nn.functional.softplus(-self.d(fake)).mean()
        opt_g.zero_grad()
        self.manual_backward(loss_g)
        opt_g.step()

    def configure_optimizers(self):
        return torch.optim.Adam(self.g.parameters(), 1e-4), torch.optim.Adam(self.d.parameters(), 1e-4)


trainer = L.Trainer(max_epochs=1, accelerator="auto", devices="auto", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(GAN(), DataLoader(TensorDataset(torch.randn(64, 16)), batch_size=16))
