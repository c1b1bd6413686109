# expect: clear
# needs: transformers accelerate
# ruff: noqa
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return {"input_ids": torch.randint(0, 500, (32,)), "attention_mask": torch.ones(32, dtype=torch.long), "labels": index % 2}


model = BertForSequenceClassification(BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, per_device_train_batch_size=8, max_steps=4, report_to=[], logging_steps=2, save_strategy="no", disable_tqdm=True)
    Trainer(model=model, args=arguments, train_dataset=Rows()).train()
