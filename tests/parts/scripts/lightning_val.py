# expect: clear
# options: --steps 6
# needs: lightning
# ruff: noqa
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Data(L.LightningDataModule):
    def setup(self, stage):
        self.train, self.val = (TensorDataset(torch.randn(n, 3, 16, 16), torch.randint(0, 4, (n,))) for n in (96, 32))

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=8, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=16)


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 196, 4))
        self.example_input_array = torch.randn(2, 3, 16, 16)

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        out = self(x)
        self.log_dict({"val_loss": nn.functional.cross_entropy(out, y), "val_acc": (out.argmax(1) == y).float().mean()})

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10), "interval": "step"}}


trainer = L.Trainer(
    max_epochs=2, accelerator="gpu", devices=1, precision="bf16-mixed", accumulate_grad_batches=3, gradient_clip_val=1.0, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=1,
)
trainer.fit(Net(), Data())
