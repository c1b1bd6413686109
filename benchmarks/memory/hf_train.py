"""One training set-up of a transformers model, by configuration and without weights: the workload behind many published peaks.

Runs on a real GPU as on a pretend one; says its own peaks at the end. MODEL is a name of MODELS.
"""

import argparse
import json

import torch
import transformers
from torch.nn import functional as F

BERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
LLAMA_32_3B = {
    "hidden_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}
MISTRAL_7B = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "sliding_window": None,
    "tie_word_embeddings": False,
}
POWERLM_3B = {
    "hidden_size": 2304,
    "num_hidden_layers": 40,
    "num_attention_heads": 36,
    "num_key_value_heads": 36,
    "intermediate_size": 9216,
    "vocab_size": 49152,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}
MODELS = {  # name: (configuration class, model class, fields); figures from each model's public config.json
    "bert-large": ("BertConfig", "BertForSequenceClassification", BERT_LARGE),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {}),
    "llama-3.2-3b": ("LlamaConfig", "LlamaForCausalLM", LLAMA_32_3B),
    "mistral-7b": ("MistralConfig", "MistralForCausalLM", MISTRAL_7B),
    "powerlm-3b": ("GraniteConfig", "GraniteForCausalLM", POWERLM_3B),
}


class OldSoftmax(torch.autograd.Function):
    """Softmax as torch before 1.11 recorded it: with its input (pytorch/pytorch#65242 dropped it)."""

    @staticmethod
    def forward(ctx, scores, dim):
        probs = torch.softmax(scores, dim)
        ctx.save_for_backward(scores, probs)
        ctx.dim = dim
        return probs

    @staticmethod
    def backward(ctx, grad):
        _, probs = ctx.saved_tensors
        return torch.ops.aten._softmax_backward_data(grad, probs, ctx.dim, grad.dtype), None


def old_softmax(scores, dim=None, dtype=None, **_):
    """Under autocast softmax works on a float32 copy: that copy was the input kept."""
    return OldSoftmax.apply(scores.float(), dim)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seq", type=int, default=512)
    parser.add_argument("--dtype", default="float32", help="of the weights")
    parser.add_argument("--autocast", help="float16 (with a GradScaler) or bfloat16")
    parser.add_argument("--attention", default="sdpa")
    parser.add_argument("--optimizer", default="AdamW", help="of torch.optim; or Adafactor of transformers")
    parser.add_argument("--no-foreach", action="store_true", help="the optimizer's loop over single tensors")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches per optimizer step")
    parser.add_argument("--checkpoint", action="store_true", help="recompute activations")
    parser.add_argument("--zero-grads", action="store_true", help="keep the gradients as zeros (the default before torch 2.0)")
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--loss", choices=("now", "4.48", "4.40"), default="now", help="how that version of transformers took its loss")
    parser.add_argument(
        "--keep-outputs", action="store_true", help="the model's outputs stay alive during backward, as in `outputs = model(...)`"
    )
    parser.add_argument("--old-softmax", action="store_true", help="softmax keeps its input too, as torch before 1.11 did")
    parser.add_argument("--padded", action="store_true", help="a mask with padding, so that attention gets an explicit mask")
    parser.add_argument("--peft", help="a configuration of peft, as JSON")
    parser.add_argument("--steps", type=int, default=3)
    return parser.parse_args()


def build(args: argparse.Namespace) -> torch.nn.Module:
    config_class, model_class, fields = MODELS[args.model]
    config = getattr(transformers, config_class)(**fields, attn_implementation=args.attention)
    config.use_cache = False
    with torch.device("meta"):  # no weights in the host's memory: to_empty() makes them on the GPU
        model = getattr(transformers, model_class)(config).to(getattr(torch, args.dtype))
        if args.peft:
            import peft

            if args.checkpoint:
                model.enable_input_require_grads()
            fields = json.loads(args.peft)
            model = peft.get_peft_model(model, getattr(peft, fields.pop("config"))(**fields))
    model = model.to_empty(device="cuda")
    model.tie_weights() if not args.peft else model.base_model.model.tie_weights()
    if args.checkpoint:
        model.gradient_checkpointing_enable()
    return model.train()


def optimizer_of(model: torch.nn.Module, args: argparse.Namespace) -> torch.optim.Optimizer:
    trained = [p for p in model.parameters() if p.requires_grad]
    if args.optimizer == "Adafactor":
        return transformers.Adafactor(trained, scale_parameter=False, relative_step=False, lr=1e-3)
    extra = {"foreach": False} if args.no_foreach else {"fused": True} if args.fused else {}
    return getattr(torch.optim, args.optimizer)(trained, lr=1e-5, **extra)


def batch_of(model: torch.nn.Module, args: argparse.Namespace) -> dict[str, torch.Tensor]:
    ids = torch.randint(100, 30000, (args.batch, args.seq)).cuda()
    if args.model.startswith("bert"):
        return {"input_ids": ids, "labels": torch.zeros(args.batch, dtype=torch.long).cuda()}
    if args.padded:  # what transformers makes of a padded batch: one boolean row of keys per query
        mask = torch.ones(args.batch, 1, args.seq, args.seq, dtype=torch.bool, device="cuda").tril()
        return {"input_ids": ids, "labels": ids, "attention_mask": mask}
    return {"input_ids": ids, "labels": ids}


def loss_of(model: torch.nn.Module, batch: dict[str, torch.Tensor], args: argparse.Namespace) -> torch.Tensor:
    if args.loss == "now":
        return model(**batch).loss
    labels = batch.pop("labels")
    outputs = model(**batch)
    if args.loss == "4.40":  # the float32 logits took the place of the model's own
        outputs.logits = outputs.logits.float()
    return shifted_loss(outputs.logits, labels)


def shifted_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss on a copy of the shifted logits, as transformers took it before it padded the labels instead."""
    exact = logits.float()
    shifted = exact[..., :-1, :].contiguous()
    return F.cross_entropy(shifted.view(-1, logits.shape[-1]), labels[..., 1:].contiguous().view(-1))


def main() -> None:
    args = arguments()
    if args.old_softmax:
        F.softmax = old_softmax
    model = build(args)
    optimizer = optimizer_of(model, args)
    scaler = torch.amp.GradScaler("cuda", enabled=args.autocast == "float16")
    autocast = getattr(torch, args.autocast) if args.autocast else torch.bfloat16
    for _ in range(args.steps):
        for _ in range(args.accumulate):
            batch = batch_of(model, args)
            with torch.autocast("cuda", dtype=autocast, enabled=bool(args.autocast)):
                if args.keep_outputs:
                    outputs = model(**batch)
                    loss = outputs.loss
                else:
                    loss = loss_of(model, batch, args)
            scaler.scale(loss / args.accumulate).backward()
        scaler.unscale_(optimizer)
        if args.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=not args.zero_grads)
    mib = 1 << 20
    print(f"peak: {torch.cuda.max_memory_allocated() / mib:.0f} MiB allocated, {torch.cuda.max_memory_reserved() / mib:.0f} MiB reserved")


if __name__ == "__main__":
    main()
