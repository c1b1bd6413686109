# expect: tensor-created-on-cpu | device-mismatch | input-not-moved
# needs: lightning
# ruff: noqa
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(20, 3)

    def training_step(self, batch, index):
        x, y = batch
        noise = torch.randn(x.shape) * 0.1
        return nn.functional.cross_entropy(self.net(x + noise), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


data = TensorDataset(torch.randn(80, 20), torch.randint(0, 3, (80,)))
L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False).fit(Net(), DataLoader(data, batch_size=16))
