import pytest
from asking import explain, slugs
from parts.dryruns import GIB, full
from parts.dryruns import slugs as run_slugs
from parts.programs import HEAD


@pytest.mark.parametrize(
    "text",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1002.00 MiB. GPU 0 has a total "
        "capacity of 8.00 GiB of which 0 bytes is free. Of the allocated memory 13.98 GiB is allocated by "
        "PyTorch, and 129.48 MiB is reserved by PyTorch but unallocated.",
        '  File "run.py", line 5, in <module>\n'
        '    model = AutoModelForCausalLM.from_pretrained(name).to("cuda")\n'
        '  File "/x/site-packages/torch/nn/modules/module.py", line 1158, in convert\n'
        "    return t.to(device)\n"
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 172.00 MiB (GPU 0; 23.69 GiB "
        "total capacity; 22.90 GiB already allocated; 20.00 MiB free; 22.91 GiB reserved in total by PyTorch)",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 15532.00 MiB on device 0: cudaMalloc failed: "
        "out of memory",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine.",
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be "
        "stored in KV cache (12080). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` "
        "when initializing the engine.",
        '  File "/x/site-packages/torch/optim/adamw.py", line 160, in step\n'
        '    state["exp_avg"] = torch.zeros_like(p)\n'
        "RuntimeError: CUDA out of memory. Tried to allocate 100.00 MiB (GPU 0; 23.69 GiB total capacity; "
        "23.00 GiB already allocated; 20.00 MiB free; 23.10 GiB reserved in total by PyTorch)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "oom-model-too-large"


def test_a_dry_run_whose_weights_gradients_and_states_fill_the_card() -> None:
    assert run_slugs(**full("optimizer", weight=7 * GIB, gradient=7 * GIB, optimizer_state=8 * GIB)) == ["oom-model-too-large"]


def test_a_dry_run_in_which_adams_states_will_not_fit() -> None:
    """6 GiB of weights need 24 GiB with gradients and two states, though the forward pass ran out first."""
    assert run_slugs(**full("forward", weight=6 * GIB, activation=17 * GIB)) == ["oom-model-too-large"]


CARD = """\
$ nvidia-smi --query-gpu=name,memory.total,memory.used --format=csv
name, memory.total [MiB], memory.used [MiB]
NVIDIA A10, 23028 MiB, 4 MiB
"""
PRETRAINED = """\
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("NAME", torch_dtype=torch.float16).to("cuda")
"""
LAYERS = """
class Wide(nn.Module):
    def __init__(self, dim=16384, layers=SIZE):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


"""


@pytest.mark.parametrize(
    ("number", "rest", "variant"),
    [
        (24, "model = Wide().to(device)\n", "source"),
        (48, "model = Wide().half().cuda()\n", "source"),
        (
            8,
            "model = Wide().to(device)\nopt = torch.optim.AdamW(model.parameters())\n"
            "for x, y in DataLoader(dataset, 4):\n    model(x.to(device)).sum().backward()\n    opt.step()\n    opt.zero_grad()\n",
            "source-train",
        ),
    ],
)
def test_sizes_in_the_source_against_the_card(number: int, rest: str, variant: str) -> None:
    finding = next(f for f in explain(HEAD + LAYERS.replace("SIZE", str(number)) + rest, CARD).findings if f.slug == "oom-model-too-large")
    assert finding.variant == variant
    assert finding.values["card"] == "NVIDIA A10"


@pytest.mark.parametrize(
    ("number", "rest"),
    [
        (8, "model = Wide().to(device)\n"),
        (24, "model = Wide().half().cuda()\n"),
        (24, "model = Wide()\nmodel(torch.randn(1, 16384))\n"),
        (24, "from accelerate import Accelerator\nmodel = Accelerator().prepare(Wide())\n"),
        (24, "import deepspeed\nengine = deepspeed.initialize(model=Wide())\n"),
        (24, "with torch.device('meta'):\n    model = Wide()\n"),
    ],
)
def test_sizes_that_fit_or_that_others_spread(number: int, rest: str) -> None:
    assert "oom-model-too-large" not in slugs(HEAD + LAYERS.replace("SIZE", str(number)) + rest, CARD)


def test_a_pretrained_model_by_its_name() -> None:
    text = PRETRAINED
    assert "oom-model-too-large" in slugs(text.replace("NAME", "meta-llama/Llama-2-70b-hf"), CARD)
    assert "oom-model-too-large" not in slugs(text.replace("NAME", "meta-llama/Llama-2-7b-hf"), CARD)
    assert "oom-model-too-large" not in slugs(text.replace("NAME", "gpt2-xl"), CARD)
