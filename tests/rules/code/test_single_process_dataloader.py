import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "UserWarning: The dataloader, train_dataloader, does not have many workers which may be a "
        "bottleneck. Consider increasing the value of the `num_workers` argument` (try 16 which is the "
        "number of cpus on this machine) in the `DataLoader` init to improve performance.",
        "num_workers: 0\n"
        "GPU utilization is 5%, training is very slow",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "single-process-dataloader"


@pytest.mark.parametrize(
    "text",
    [
        "num_workers: 8\n"
        "GPU utilization is 95%",
    ],
)
def test_neighbours(text: str) -> None:
    assert "single-process-dataloader" not in slugs(text)
