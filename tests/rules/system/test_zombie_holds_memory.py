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
