import pytest
from asking import slugs
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
    assert "number 7 is rank 0: all_reduce [3], rank 1: -" in report.findings[0].text("en").title
