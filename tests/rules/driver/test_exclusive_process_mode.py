import pytest
from asking import explain, slugs

from ongpu.report.recipes import commands


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


def test_only_the_card_that_is_closed_is_opened_and_its_mode_can_be_restored() -> None:
    listed = "index, name, compute_mode\n0, NVIDIA A100-SXM4-80GB, Default\n1, NVIDIA A100-SXM4-80GB, Prohibited\n"
    report = explain("$ nvidia-smi --query-gpu=index,name,compute_mode --format=csv\n" + listed)
    assert report.findings[0].variant == "prohibited"
    changing = [c for c in commands(report.findings[0], report) if " -c " in c.run]
    assert [(c.run, c.undo) for c in changing] == [("sudo nvidia-smi -i 1 -c 0", "sudo nvidia-smi -i 1 -c PROHIBITED")]
