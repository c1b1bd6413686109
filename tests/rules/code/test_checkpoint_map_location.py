import pytest
from asking import linted, slugs
from parts.programs import HEAD, MODEL, PICTURES, START


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


@pytest.mark.parametrize(
    "text",
    [
        START + """\
import os
import torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = nn.Linear(4, 2).cuda()
model.load_state_dict(torch.load("last.pt"))
torch.save(model.state_dict(), "last.pt")
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "checkpoint-map-location" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        START + MODEL + """\
model.load_state_dict(torch.load("a.pt", map_location="cpu"))
""",
        START + MODEL + """\
model.load_state_dict(torch.load("a.pt", device))
""",
        START + """\
x = torch.load("a.pt")
""",
        START + PICTURES + """\
        return torch.load(str(i)), i

loader = DataLoader(Pictures(), 8)
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "checkpoint-map-location" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + """
import torch.distributed as dist
import os
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
model = Net().cuda(rank)
model.load_state_dict(torch.load("last.pt"))
torch.save(model.state_dict(), "last.pt")
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "checkpoint-map-location" in linted(text)
