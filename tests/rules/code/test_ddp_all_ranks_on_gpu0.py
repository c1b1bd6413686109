import pytest
from asking import linted, slugs
from parts.dryruns import slugs as run_slugs
from parts.programs import HEAD, START


@pytest.mark.parametrize(
    "text",
    [
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 17000",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "ddp-all-ranks-on-gpu0"


@pytest.mark.parametrize(("devices", "found"), [(["cuda:0", "cuda:0"], True), (["cuda:0", "cuda:1"], False), (["cuda:0", None], False)])
def test_a_dry_run_of_several_ranks(devices: list[str | None], found: bool) -> None:
    ranks = [{"rank": n, "device": device, "outcome": "stopped", "peak_reserved": 1 << 30} for n, device in enumerate(devices)]
    assert run_slugs(ranks=ranks) == (["ddp-all-ranks-on-gpu0"] if found else [])


@pytest.mark.parametrize(
    "text",
    [
        START + """\
import os
import torch.distributed as dist
dist.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda())
""",
        START + """\
import os
import torch.distributed as dist
dist.init_process_group()
model = nn.Linear(4, 2).to("cuda:0")
model = nn.parallel.DistributedDataParallel(model, device_ids=[0])
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "ddp-all-ranks-on-gpu0" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        START + """\
import os
import torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda())
""",
        START + """\
import os
import torch.distributed as dist
dist.init_process_group("gloo")
model = nn.Linear(4, 2).cuda()
""",
        START + """\
import os
import torch.distributed as dist
dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
model = nn.Linear(4, 2).to(rank)
""",
        START + """\
import os
import torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
model = nn.Linear(4, 2).to(f"cuda:{rank}")
""",
        START + """\
model = nn.Linear(4, 2).cuda()
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "ddp-all-ranks-on-gpu0" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("nccl")
model = DDP(Net().to("cuda"))
""",
        HEAD
        + """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
def main():
    dist.init_process_group(backend="nccl")
    model = Net().cuda()
    model = DDP(model)
    for x, y in DataLoader(dataset, 4, num_workers=2):
        F.cross_entropy(model(x.cuda()), y.cuda()).backward()
main()
""",
        HEAD
        + """
import os
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
rank = int(os.environ["RANK"])
dist.init_process_group("nccl", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
dev = torch.device("cuda:0")
model = DistributedDataParallel(Net().to(dev), device_ids=[0])
""",
        HEAD
        + """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
class Trainer:
    def __init__(self):
        dist.init_process_group("nccl")
        self.model = DDP(Net().to(device))
    def fit(self):
        for x, y in DataLoader(dataset, 4, num_workers=2):
            F.cross_entropy(self.model(x.to(device)), y.to(device)).backward()
Trainer().fit()
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "ddp-all-ranks-on-gpu0" in linted(text)
