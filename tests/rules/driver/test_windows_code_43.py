import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "Windows has stopped this device because it has reported problems. (Code 43)\n"
        "NVIDIA GeForce GTX 1060",
        "FriendlyName : NVIDIA GeForce RTX 3060\n"
        "Status       : Error\n"
        "Problem      : CM_PROB_FAILED_POST_START",
        "Name: NVIDIA GeForce RTX 2070\nConfigManagerErrorCode : 43\nDriverVersion : 30.0.15.1179",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["windows-code-43"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "Card name: NVIDIA GeForce RTX 3060\n"
        "Device Problem Code: No Problem\n"
        "Driver Version: 31.0.15.3699",
        "error: process finished with exit code 43",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "windows-code-43" not in slugs(text)
