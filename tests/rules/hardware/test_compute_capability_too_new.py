import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch "
        "installation.\n"
        "The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.",
        "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
        "nvcc fatal   : Unsupported gpu architecture 'compute_86'\nCuda compilation tools, release 10.2, V10.2.89",
        "Mismatched GPU Architecture: The installed PaddlePaddle package was compiled for 60 70 75 80 "
        "86 , but your current GPU is 120.",
        "RTX 5070 Ti, torch==2.5.1+cu124: it hangs at the first kernel",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["compute-capability-too-new"]


@pytest.mark.parametrize(
    "text",
    [
        "RTX 3060, torch==2.1.0+cu118",
        "Ignoring visible gpu device (device: 0, name: GeForce GT 750M, pci bus id: 0000:01:00.0, "
        "compute capability: 3.0) with Cuda compute capability 3.0. The minimum required Cuda "
        "capability is 3.5.",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "compute-capability-too-new" not in slugs(text)
