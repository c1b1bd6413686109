"""LoRA and adapter fine-tuning as litgpt does it (its own models; bfloat16 weights): the workload of its resource tables.

METHOD is lora, adapter or adapter_v2; the loss is taken over chunks of 128 positions, AdamW trains the few added weights.
"""

import argparse
import importlib

import torch
from litgpt.utils import chunked_cross_entropy

LORA = {"lora_r": 8, "lora_alpha": 16, "lora_dropout": 0.05, "lora_query": True, "lora_value": True}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=("lora", "adapter", "adapter_v2"))
    parser.add_argument("model", help="a name of litgpt's configurations")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    family = importlib.import_module(f"litgpt.{args.method}")
    with torch.device("meta"):
        model = family.GPT(family.Config.from_name(args.model, **(LORA if args.method == "lora" else {}))).to(torch.bfloat16)
    model = model.to_empty(device="cuda")
    getattr(family, f"mark_only_{args.method}_as_trainable")(model)
    model.max_seq_length = args.seq
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-4, weight_decay=0.02)
    for _ in range(args.steps):
        for _ in range(2):  # micro-batches; the tables accumulate more of them, which changes no peak
            ids = torch.randint(0, 30000, (args.batch, args.seq)).cuda()
            logits = [chunk.float() for chunk in model(ids, lm_head_chunk_size=128)]  # Fabric's "bf16-true" gives outputs as float32
            logits[-1] = logits[-1][..., :-1, :]
            chunked_cross_entropy(logits, ids[..., 1:]).backward()
            for module in model.modules():  # kept for generation; in training it would keep the graph
                if hasattr(module, "adapter_kv_cache"):
                    module.adapter_kv_cache = None
        optimizer.step()
        optimizer.zero_grad()
    mib = 1 << 20
    print(f"peak: {torch.cuda.max_memory_allocated() / mib:.0f} MiB allocated, {torch.cuda.max_memory_reserved() / mib:.0f} MiB reserved")


if __name__ == "__main__":
    main()
