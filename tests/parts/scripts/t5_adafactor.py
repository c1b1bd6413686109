# expect: clear
# needs: transformers
# ruff: noqa
import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.optimization import Adafactor

device = torch.device("cuda")
model = T5ForConditionalGeneration(T5Config(vocab_size=200, d_model=32, d_ff=64, d_kv=16, num_layers=2, num_heads=2, decoder_start_token_id=0)).to(device)
model.gradient_checkpointing_enable()
optimizer = Adafactor(model.parameters(), scale_parameter=True, relative_step=True, warmup_init=True)
model.train()
for _ in range(4):
    batch = {"input_ids": torch.randint(1, 200, (4, 12)), "labels": torch.randint(1, 200, (4, 7))}
    batch = {k: v.to(device) for k, v in batch.items()}
    loss = model(**batch, use_cache=False).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
