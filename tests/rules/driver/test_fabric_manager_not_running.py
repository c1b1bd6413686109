import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized\n"
        "GPU 0: NVIDIA H100 80GB HBM3",
        "● nvidia-fabricmanager.service - NVIDIA fabric manager service\n"
        "     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled)\n"
        "     Active: failed (Result: exit-code)\n"
        "Error 802: system not yet initialized",
        "nv-fabricmanager: fabric manager NVIDIA GPU driver interface version 535.104.05 don't match "
        "with driver version 535.129.03. Please update with matching NVIDIA driver package.",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["fabric-manager-not-running"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "NVIDIA GeForce RTX 4090\nError 802: system not yet initialized",
        "Unit nvidia-fabricmanager.service could not be found.\n"
        "NVIDIA GeForce RTX 3090\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "fabric-manager-not-running" not in slugs(text)
