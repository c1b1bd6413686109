import pytest
from asking import slugs
from parts.dryruns import GIB, full
from parts.dryruns import slugs as run_slugs


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
