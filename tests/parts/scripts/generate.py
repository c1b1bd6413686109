# expect: unknown
# options: --time-limit 15
# needs: transformers
# ruff: noqa
import torch
from transformers import GPT2Config, GPT2LMHeadModel

model = GPT2LMHeadModel(GPT2Config(vocab_size=200, n_positions=64, n_embd=32, n_layer=2, n_head=2)).to("cuda").eval()
ids = torch.randint(0, 200, (2, 8)).to("cuda")
with torch.no_grad():
    greedy = model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=0)
    sampled = model.generate(ids, max_new_tokens=6, do_sample=True, top_k=10, temperature=0.7, pad_token_id=0)
print(greedy.shape, sampled.cpu().tolist()[0][:3])
