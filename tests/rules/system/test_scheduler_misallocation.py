# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "$ grep CUDA unit.00000[0-3].sh\n"
        'unit.000000.sh:export "CUDA_VISIBLE_DEVICES=0"\n'
        'unit.000001.sh:export "CUDA_VISIBLE_DEVICES=0"',
        "Cuda Visible devices:\n"
        "7\n"
        "SLURM JOB ID:\n"
        "121062\n"
        "|    7     69344  python                                              4961MB  |\n"
        "error=46 : all CUDA-capable devices are busy or unavailable",
        "ConstrainDevices=no\n"
        "|    0   N/A  N/A     40112      C   python                                    38211MiB |\n"
        "|    0   N/A  N/A     40988      C   python                                    40110MiB |",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["scheduler-misallocation"]


@pytest.mark.parametrize(
    "text",
    [
        'unit.000000.sh:export "CUDA_VISIBLE_DEVICES=0"\nunit.000001.sh:export "CUDA_VISIBLE_DEVICES=1"',
        "error=46 : all CUDA-capable devices are busy or unavailable",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "scheduler-misallocation" not in slugs(text)


CARD = "|   0  NVIDIA A100          On   |   00000000:01:00.0 Off |                    0 |\n| N/A   41C    P0            312W / 400W |  {}MiB / 40960MiB |     96%      Default |\n"


@pytest.mark.parametrize(("given", "used", "found"), [("2,3", 39000, True), ("0,1", 39000, False), ("2,3", 1000, False)])
def test_a_number_by_hand_leads_to_a_full_card_of_another_job(given: str, used: int, found: bool) -> None:
    texts = (f"SLURM_JOB_GPUS={given}\nCUDA_VISIBLE_DEVICES=0\n", "$ nvidia-smi\n" + CARD.format(used), "RuntimeError: CUDA error: out of memory")
    assert ("scheduler-misallocation" in slugs(*texts)) is found


def test_a_step_that_lists_more_than_it_asked_for() -> None:
    card = "GPU {}: Tesla V100 (UUID: GPU-b668a901-6b19-5c0c-554c-cce49d58af0{})\n"
    assert slugs("$ srun --gres=gpu:2 nvidia-smi -L | wc -l\n16") == ["scheduler-misallocation"]
    assert slugs("$ srun --gres=gpu:1 nvidia-smi -L\n" + card.format(0, "a") + card.format(1, "b")) == ["scheduler-misallocation"]
    assert slugs("$ srun --gres=gpu:2 nvidia-smi -L | wc -l\n2") == []
    assert slugs("$ srun -N2 --gres=gpu:2 nvidia-smi -L | wc -l\n4") == []  # two nodes answer
    assert slugs("$ srun --ntasks=2 --gpus-per-task=1 nvidia-smi -L\n" + card.format(0, "a") + card.format(0, "b")) == []
