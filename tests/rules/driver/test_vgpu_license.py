import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "    vGPU Software Licensed Product\n"
        "        Product Name                      : NVIDIA RTX Virtual Workstation\n"
        "        License Status                    : Unlicensed (Restricted)",
        "nvidia-gridd[1123]: Failed to acquire license from license server - 10.0.0.5",
        "CUDA error: device doesn't have valid Grid license",
        "GRID A100-10C\nRuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["vgpu-license"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "        License Status                    : Licensed (Expiry: 2025-1-1 0:0:0 GMT)",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "vgpu-license" not in slugs(text)
