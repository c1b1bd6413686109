import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "epoch 1 done, allocated 2.1 GiB\n"
        "epoch 2 done, allocated 4.3 GiB\n"
        "epoch 3 done, allocated 6.5 GiB\n"
        "epoch 4 done, allocated 8.8 GiB\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; "
        "9.71 GiB already allocated; 20.44 MiB free; 9.80 GiB reserved in total by PyTorch)",
        "    total_loss += loss\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; "
        "9.71 GiB already allocated; 20.44 MiB free; 9.80 GiB reserved in total by PyTorch)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "oom-graph-retained"


@pytest.mark.parametrize(
    "text",
    [
        "epoch 1 done, allocated 8.1 GiB\n"
        "epoch 2 done, allocated 8.1 GiB\n"
        "epoch 3 done, allocated 8.1 GiB\n",
    ],
)
def test_neighbours(text: str) -> None:
    assert "oom-graph-retained" not in slugs(text)
