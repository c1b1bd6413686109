import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "Error 805: MPS client failed to connect to the MPS control daemon or the MPS server",
        "Cannot find MPS control daemon process",
        "export CUDA_MPS_PIPE_DIRECTORY=/tmp/mps\n"
        "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["mps-stale"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "mps-stale" not in slugs(text)
