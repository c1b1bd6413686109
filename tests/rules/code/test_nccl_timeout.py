# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import lint, linted, slugs
from parts.dryruns import CALL, judged


@pytest.mark.parametrize(
    "text",
    [
        "[rank1]:[E ProcessGroupNCCL.cpp:563] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600040 "
        "milliseconds before timing out.",
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
        "store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients "
        "joined.",
        "RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
        "key-value store by key '0', but store->get('0') got error: Socket Timeout",
        "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and "
        "are waiting for remainder of ranks for more than 60 seconds.\n"
        "Stalled ranks:\n"
        "0: [allreduce.x]",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "nccl-timeout"


@pytest.mark.parametrize(
    "text",
    [
        "requests.exceptions.ReadTimeout: HTTPSConnectionPool: Read timed out.",
    ],
)
def test_neighbours(text: str) -> None:
    assert "nccl-timeout" not in slugs(text)


def test_a_dry_run_whose_ranks_differ_in_a_collective() -> None:
    call = {"op": "all_reduce", "shape": [3], "dtype": "float32", "place": CALL}
    report = judged(mismatches=[{"index": 7, "ranks": {"0": call, "1": None}}])
    assert [f.slug for f in report.findings] == ["nccl-timeout"]
    assert "number 7 is rank 0: all_reduce [3] (train.py:18), rank 1: -" in report.findings[0].text("en").title


HEAD = "import torch, torch.distributed as dist\nfrom accelerate import Accelerator\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rank = dist.get_rank()\nfor epoch in range(3):\n    train()\n    if rank == 0:\n        torch.save(m, 'x')\n        dist.barrier()\n", 8),
        ("def avg(t, rank):\n    if rank == 0 and t is not None:\n        dist.all_reduce(t)\n    return t\n", 5),
        ("def sync():\n    dist.barrier()\ndef main():\n    if dist.get_rank() == 0:\n        sync()\nmain()\n", 4),
        ("class T:\n    def save(self):\n        if self.is_main_process():\n            dist.broadcast(self.t, 0)\n", 6),
        ("import os\nif int(os.environ['RANK']) != 0:\n    pass\nelse:\n    dist.all_gather(parts, t)\n", 7),
        ("a = Accelerator()\nif a.is_main_process:\n    print(a.gather(t))\n", 5),
        ("import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=m)\nif dist.get_rank() == 0:\n    engine.save_checkpoint('x')\n", 6),
        ("if not rank:\n    g = dist.new_group([0, 1])\n", 4),
    ],
)
def test_a_collective_that_some_ranks_never_call(text: str, line: int) -> None:
    report = lint(HEAD + text)
    assert [(f.slug, f.refs[0].line) for f in report.findings] == [("nccl-timeout", line)]
    assert linted(HEAD + text) == ["nccl-timeout"]


@pytest.mark.parametrize(
    "text",
    [
        "dist.barrier()\nif dist.get_rank() == 0:\n    torch.save(m, 'x')\ndist.barrier()\n",
        "if rank != 0:\n    dist.barrier()\nload()\nif rank == 0:\n    dist.barrier()\n",
        "if args.local_rank not in [-1, 0]:\n    dist.barrier()\nload()\nif args.local_rank == 0:\n    dist.barrier()\n",
        "if args.local_rank != -1:\n    dist.barrier()\n",
        "if rank >= 0:\n    dist.all_reduce(t)\n",
        "if world_size > 1:\n    dist.all_reduce(t)\n",
        "if rank == 0:\n    dist.gather(t, parts)\nelse:\n    dist.gather(t)\n",
        "if rank == 0:\n    dist.broadcast(t, 0)\nif rank > 0:\n    dist.broadcast(t, 0)\n",
        "if rank in group_ranks:\n    dist.all_reduce(t, group=group)\n",
        "if rank == 0:\n    dist.all_reduce(t, group=local_group)\n",
        "if rank == 0:\n    dist.send(t, 1)\nelse:\n    dist.recv(t, 0)\n",
        "if dist.is_initialized():\n    dist.barrier()\n",
        "if rank is not None:\n    dist.all_reduce(t)\n",
        "a = Accelerator()\na.wait_for_everyone()\nif a.is_main_process:\n    a.save_model(m, 'x')\n",
        "if len(ranks) == 1:\n    dist.barrier()\n",
        "if rank == 0:\n    print(functools.reduce(f, dist.get_backend()))\n",
        "import contextlib\n@contextlib.contextmanager\ndef first(rank):\n    if rank != 0:\n        dist.barrier()\n    yield\n    if rank == 0:\n        dist.barrier()\n",
    ],
)
def test_collectives_that_all_ranks_call(text: str) -> None:
    assert "nccl-timeout" not in linted(HEAD + text)


DDP = """\
import torch, torch.distributed as dist, torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(torchvision.models.resnet50().cuda(local_rank))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x.cuda(local_rank)), y.cuda(local_rank))
    if torch.isnan(loss):
        continue
    loss.backward()
    opt.step()
if dist.get_rank() == 0:
    with torch.no_grad():
        model(batch)
"""
NO_SKIP = DDP.replace("    if torch.isnan(loss):\n        continue\n", "")
NO_EVALUATION = DDP[: DDP.index("if dist.get_rank")]


def _hangs(text: str) -> list[tuple[str, int, str]]:
    return [(f.variant, f.refs[0].line, f.weight.name) for f in lint(text).findings if f.slug == "nccl-timeout"]


def test_what_one_rank_does_alone_with_ddp() -> None:
    assert _hangs(NO_SKIP) == [("forward", 12, "WARNING")]
    assert _hangs(NO_EVALUATION) == [("skip", 8, "WARNING")]
    own = "nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))"
    assert _hangs(NO_SKIP.replace("torchvision.models.resnet50()", own)) == [("forward", 12, "WARNING")]


@pytest.mark.parametrize(
    "text",
    [
        NO_SKIP.replace("        model(batch)", "        model.module(batch)"),
        NO_SKIP.replace("torchvision.models.resnet50()", "nn.Linear(4, 2)"),
        NO_SKIP.replace("if dist.get_rank() == 0:\n    with torch.no_grad():\n        model(batch)\n", "with torch.no_grad():\n    model(batch)\n"),
        NO_SKIP.replace("cuda(local_rank))\nopt", "cuda(local_rank), broadcast_buffers=False)\nopt"),
        NO_EVALUATION.replace("    if torch.isnan(loss):\n        continue\n", "    if torch.isnan(loss):\n        print('not finite')\n"),
        NO_EVALUATION.replace("    if torch", "    dist.all_reduce(loss)\n    if torch"),
        NO_EVALUATION.replace("DistributedDataParallel(torchvision.models.resnet50().cuda(local_rank))", "torchvision.models.resnet50().cuda()"),
    ],
)
def test_what_all_ranks_do_with_ddp(text: str) -> None:
    assert _hangs(text) == []


def test_ranks_that_returned_before() -> None:
    assert _hangs(HEAD + "def save(model, rank):\n    if rank != 0:\n        return\n    torch.save(model, 'x')\n    dist.barrier()\n") == [("source", 7, "ERROR")]
    assert _hangs(HEAD + "def save(model, rank):\n    if rank != 0:\n        dist.barrier()\n        return\n    torch.save(model, 'x')\n    dist.barrier()\n") == []
    assert _hangs(HEAD + "def log(x, rank):\n    if x is None:\n        return\n    dist.all_reduce(x)\n") == []


UNEVEN = """\
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(nn.Linear(2, 2).cuda(rank))
mine = samples[rank::world_size]
for x in mine:
    model(x).mean().backward()
    opt.step()
"""


def test_samples_dealt_out_unevenly() -> None:
    assert _hangs(UNEVEN) == [("uneven", 5, "WARNING")]
    assert _hangs(UNEVEN.replace("    opt", "    opt").replace("for x in mine:", "with model.join():\n  for x in mine:").replace("    ", "     ")) == []
    assert _hangs(UNEVEN.replace("DistributedDataParallel(nn.Linear(2, 2).cuda(rank))", "nn.Linear(2, 2).cuda(rank)")) == []
    assert _hangs(UNEVEN.replace("samples[rank::world_size]", "samples[: len(samples) // world_size * world_size][rank:]")) == []
    assert _hangs(UNEVEN.replace("    model(x).mean().backward()\n    opt.step()\n", "    print(model(x))\n")) == []


CAUGHT = NO_EVALUATION.replace(
    """    loss = nn.functional.cross_entropy(model(x.cuda(local_rank)), y.cuda(local_rank))
    if torch.isnan(loss):
        continue
""",
    """    try:
        loss = nn.functional.cross_entropy(model(x.cuda(local_rank)), y.cuda(local_rank))
    except RuntimeError:
        continue
""",
)


def test_a_rank_that_catches_an_error_and_goes_on_alone() -> None:
    assert _hangs(CAUGHT) == [("skip", 9, "WARNING")]
    assert _hangs(CAUGHT.replace("        continue", "        raise")) == []
    assert _hangs(CAUGHT.replace("DistributedDataParallel(torchvision.models.resnet50().cuda(local_rank))", "torchvision.models.resnet50().cuda()")) == []
