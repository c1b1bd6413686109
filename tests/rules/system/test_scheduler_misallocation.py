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
