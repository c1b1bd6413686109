# expect: clear
# options: --steps 6
# needs: transformers accelerate
# ruff: noqa
import tempfile

import numpy as np
import torch
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return {"input_ids": torch.randint(0, 300, (24,)), "attention_mask": torch.ones(24, dtype=torch.long), "labels": index % 3}


def metrics(prediction):
    logits, labels = prediction
    return {"accuracy": float((np.argmax(logits, axis=-1) == labels).mean())}


model = DistilBertForSequenceClassification(DistilBertConfig(vocab_size=300, dim=32, hidden_dim=64, n_layers=2, n_heads=2, num_labels=3))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, per_device_train_batch_size=8, per_device_eval_batch_size=16, eval_strategy="steps", eval_steps=2, max_steps=4, save_strategy="steps", save_steps=2,
        load_best_model_at_end=True, metric_for_best_model="accuracy", fp16=True, dataloader_num_workers=1, report_to=[], logging_steps=1, disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Rows(64), eval_dataset=Rows(32), compute_metrics=metrics)
    trainer.train()
    print(trainer.evaluate())
