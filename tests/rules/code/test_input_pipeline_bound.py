import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "Epoch: [0][10/5005]\tTime 22.424 (7.498)\tData 22.372 (7.070)\tLoss 6.9065 (6.9074)",
        "2022-01-01 - mmdet - INFO - Epoch [1][50/7330] lr: 1e-03, eta: 1 day, time: 1.234, data_time: "
        "0.987, memory: 5432, loss: 2.1",
        "UserWarning: This DataLoader will create 16 worker processes in total. Our suggested max number of "
        "worker in current system is 2, which is smaller than what this DataLoader is going to create. "
        "Please be aware that excessive worker creation might get DataLoader running slow or even freeze",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "input-pipeline-bound"


@pytest.mark.parametrize(
    "text",
    [
        "Epoch: [0][10/5005]\tTime 0.424 (0.498)\tData 0.002 (0.010)\tLoss 6.9065 (6.9074)",
    ],
)
def test_neighbours(text: str) -> None:
    assert "input-pipeline-bound" not in slugs(text)
