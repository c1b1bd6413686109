import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        ("MacBook Pro M1, macOS 13.4\nAssertionError: Torch not compiled with CUDA enabled",),
        (
            '  File "/Users/me/x.py", line 3\n'
            "RuntimeError: Attempting to deserialize object on a CUDA device but"
            " torch.cuda.is_available() is False.\n"
            "macOS Sonoma",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement"
            " nvidia-cublas-cu12==12.1.3.1 (from versions: 0.0.1.dev5)\n"
            "MacBook Pro M2, macOS 14.3",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["macos-no-cuda"]


@pytest.mark.parametrize(
    "texts",
    [
        ("torch.cuda.is_available() returns False\ntorch.__version__ is 1.13.1+cpu, RTX 3060, driver 528.02",),
        (
            "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA"
            " major versions. PyTorch has CUDA Version=12.1 and torchvision has CUDA Version=11.8."
            " Please reinstall the torchvision that matches your PyTorch install.",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "macos-no-cuda" not in slugs(*texts)
