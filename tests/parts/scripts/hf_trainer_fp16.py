# expect: clear
# needs: transformers accelerate
# ruff: noqa
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

rows = [{"input_ids": torch.randint(0, 400, (64,)), "labels": torch.randint(0, 400, (64,))} for _ in range(32)]
model = GPT2LMHeadModel(GPT2Config(vocab_size=400, n_positions=64, n_embd=64, n_layer=2, n_head=2))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, per_device_train_batch_size=2, gradient_accumulation_steps=4, max_steps=3, bf16=True, gradient_checkpointing=True,
        report_to=[], save_strategy="no", disable_tqdm=True,
    )
    Trainer(model=model, args=arguments, train_dataset=rows).train()
