# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "|   0  Tesla P100-SXM2...  Off  | 00000000:05:00.0 Off |                    0 |\n"
        "| N/A   36C    P0    41W / 300W |  12799MiB / 16280MiB |      0%      Default |\n"
        "| Processes:                                                       GPU Memory |\n"
        "|  GPU       PID   Type   Process name                             Usage      |",
        "Check failed: err == cudaSuccess (2 vs. 0) out of memory\n"
        "$ sudo fuser -v /dev/nvidia*\n"
        "/dev/nvidia0:        ubuntu     4411 F...m python",
        "|    0     31794    C   Unknown Error                                 5371MiB |",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["zombie-holds-memory"]


@pytest.mark.parametrize(
    "text",
    [
        "|   0  Tesla P100-SXM2...  Off  | 00000000:05:00.0 Off |                    0 |\n"
        "| N/A   36C    P0    41W / 300W |  12799MiB / 16280MiB |      0%      Default |\n"
        "| Processes:  |\n"
        "|    0     31794      C   python                                     12700MiB |",
        "|   0  Tesla P100-SXM2...  Off  | 00000000:05:00.0 Off |                    0 |\n"
        "| N/A   36C    P0    41W / 300W |  12799MiB / 16280MiB |      0%      Default |\n",
        "|   0  NVIDIA GeForce ...  WDDM  | 00000000:05:00.0 Off |                    0 |\n"
        "| N/A   36C    P0    41W / 300W |  5799MiB / 16280MiB |      0%      Default |\n"
        "| Processes: |",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "zombie-holds-memory" not in slugs(text)


def test_no_process_and_no_memory_told_is_a_gpu_that_nobody_uses() -> None:
    assert "zombie-holds-memory" not in slugs("nvidia-smi shows no process on the GPU, my script is slow")
    assert slugs("nvidia-smi shows no process, but 22 GB of memory are used")[0] == "zombie-holds-memory"


def test_a_holder_that_ps_does_not_list_any_more() -> None:
    table = "|   0  TITAN X (Pascal)    Off  | 00000000:02:00.0  On |                  N/A |\n| 31%   54C    P2    58W / 250W |   {}MiB / 12189MiB |      3%      Default |"
    search = "$ ps aux | grep train.py\n{}u    9921  0.0  0.0  14224   940 pts/3    S+   14:12   0:00 grep train.py\n"
    held = "$ fuser -v /dev/nvidia0\n                     USER        PID ACCESS COMMAND\n/dev/nvidia0:        u      9377 F...m python"
    assert slugs(table.format(7829), search.format("") + held) == ["zombie-holds-memory"]
    assert "zombie-holds-memory" not in slugs(table.format(312), search.format("") + held)
    assert "zombie-holds-memory" not in slugs(table.format(7829), search.format("u    9377 99.0  3.0 914224 94000 pts/2    R+   14:02   9:10 python train.py\n") + held)
