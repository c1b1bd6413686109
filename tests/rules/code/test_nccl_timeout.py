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
