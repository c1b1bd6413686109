import pytest
from asking import explain, slugs


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


def test_memory_that_grows_until_the_process_is_killed() -> None:
    assert slugs("Why does RAM usage keep increasing on training? Then RAM is out of memory, process killed.") == ["host-oom"]
    assert "host-oom" not in slugs("GPU memory keeps increasing until CUDA out of memory; I killed the process.")


WHOLE = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=user.slice,mems_allowed=0,global_oom,task_memcg=/user.slice,"
    "task=python3,pid=4711,uid=1000\nOut of memory: Killed process 4711 (python3) total-vm:99999kB"
)
LIMIT = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/docker/1,task_memcg=/docker/1,"
    "task=python3,pid=4711,uid=0\nMemory cgroup out of memory: Killed process 4711 (python3) total-vm:99999kB"
)


def test_the_whole_machine_is_no_limit() -> None:
    assert explain(WHOLE).findings[0].variant == "kernel"
    limited = explain(LIMIT).findings[0]
    assert limited.variant == "limit"
    assert "the memory limit" not in limited.text("zh").title
