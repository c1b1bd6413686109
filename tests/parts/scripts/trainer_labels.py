# expect: device-side-assert
# needs: transformers accelerate
# ruff: noqa
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

rows = [{"input_ids": torch.randint(0, 300, (16,)), "labels": index % 5} for index in range(40)]
model = BertForSequenceClassification(BertConfig(vocab_size=300, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, per_device_train_batch_size=8, max_steps=3, report_to=[], save_strategy="no", disable_tqdm=True)
    Trainer(model=model, args=arguments, train_dataset=rows).train()
