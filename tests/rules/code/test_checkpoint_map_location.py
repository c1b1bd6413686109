import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
        "False. If you are running on a CPU-only machine, please use torch.load with "
        "map_location=torch.device('cpu') to map your storages to the CPU.",
        "RuntimeError: Attempting to deserialize object on CUDA device 2 but torch.cuda.device_count() is 1. "
        "Please use torch.load with map_location to map your storages to an existing device.",
        '  File "/x/torch/serialization.py", line 155, in _cuda_deserialize\n'
        "    return obj.cuda(device)\n"
        "RuntimeError: CUDA error: out of memory",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "checkpoint-map-location"


@pytest.mark.parametrize(
    "text",
    [
        "state = torch.load('x.pt', map_location='cpu')",
    ],
)
def test_neighbours(text: str) -> None:
    assert "checkpoint-map-location" not in slugs(text)
