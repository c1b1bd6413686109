import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable\n"
        "Compute Mode                    : Exclusive_Process",
        "cudaErrorDevicesUnavailable\n$ nvidia-smi -c EXCLUSIVE_PROCESS",
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "|   0  Tesla V100-SXM2...  On   | 00000000:1A:00.0 Off |                    0 |\n"
        "| N/A   35C    P0    43W / 300W |      0MiB / 16160MiB |      0%   Prohibited |",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["exclusive-process-mode"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "exclusive-process-mode" not in slugs(text)
