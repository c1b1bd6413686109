import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 216.00 MiB (GPU 0; 7.92 GiB total capacity; "
        "69.17 MiB already allocated; 24.56 MiB free; 86.00 MiB reserved in total by PyTorch)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacty "
        "of 23.65 GiB of which 5.50 MiB is free. Process 1234 has 20.10 GiB memory in use. Including "
        "non-PyTorch memory, this process has 3.40 GiB memory in use. Of the allocated memory 3.00 GiB is "
        "allocated by PyTorch, and 50.00 MiB is reserved by PyTorch but unallocated.",
        "ValueError: Free memory on device (1.2/79.1 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 71.19 GiB). Decrease GPU memory utilization or reduce GPU memory used by other "
        "processes.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "oom-other-process"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 10.76 GiB total capacity; 8.90 "
        "GiB already allocated; 700.00 MiB free; 9.20 GiB reserved in total by PyTorch)",
    ],
)
def test_neighbours(text: str) -> None:
    assert "oom-other-process" not in slugs(text)
