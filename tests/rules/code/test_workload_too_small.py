import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "UserWarning: You are trying to run PPO on the GPU, but it is primarily intended to run on the CPU "
        "when not using a CNN policy (you are using ActorCriticPolicy which should be a MlpPolicy).",
        "NumbaPerformanceWarning: Grid size 1 will likely result in GPU under-utilization due to low "
        "occupancy.",
        "CPU time per epoch: 0.26 s\n"
        "GPU time per epoch: 1.21 s",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "workload-too-small"


@pytest.mark.parametrize(
    "text",
    [
        "CPU time per epoch: 20.26 s\n"
        "GPU time per epoch: 1.21 s",
    ],
)
def test_neighbours(text: str) -> None:
    assert "workload-too-small" not in slugs(text)
