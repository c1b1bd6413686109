import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "Out of memory: Killed process 25315 (python3) total-vm:53312244kB, anon-rss:31451456kB",
        "$ python main.py\n已杀死",
        "        Reason:       OOMKilled\n        Exit Code:    137",
        "RuntimeError: DataLoader worker (pid 24411) is killed by signal: Killed.\n#SBATCH --mem-per-cpu=4G",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate "
        "memory: you tried to allocate 9000000000 bytes.",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=123.batch.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["host-oom"]


@pytest.mark.parametrize(
    "text",
    [
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.42 GiB",
        "DataLoader worker (pid 1) is killed by signal: Bus error.",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "host-oom" not in slugs(text)
