import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 2.93 GiB (GPU 0; 23.80 GiB total capacity; "
        "12.04 GiB already allocated; 2.82 GiB free; 19.69 GiB reserved in total by PyTorch)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity "
        "of 79.15 GiB of which 500.00 MiB is free. Including non-PyTorch memory, this process has 78.60 GiB "
        "memory in use. Of the allocated memory 50.00 GiB is allocated by PyTorch, and 28.00 GiB is reserved "
        "by PyTorch but unallocated.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "oom-fragmentation"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 22.78 GiB (GPU 0; 31.47 GiB total capacity; "
        "9.08 GiB already allocated; 12.73 GiB free; 18.43 GiB reserved in total by PyTorch)",
    ],
)
def test_neighbours(text: str) -> None:
    assert "oom-fragmentation" not in slugs(text)
