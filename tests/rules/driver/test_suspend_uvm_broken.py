# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "After resume from suspend CUDA does not work any more.\n"
        "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. "
        "changing env variable CUDA_VISIBLE_DEVICES after program start.",
        "[ 5123.11] PM: suspend exit\nfailed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error",
        "my laptop woke up from sleep, now ollama says: cuda driver library init failure: 999",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["suspend-uvm-broken"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "PM: suspend exit\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "suspend-uvm-broken" not in slugs(text)


def test_a_computer_that_wakes_up() -> None:
    assert slugs("GPU becomes unavailable after the computer wakes up from sleep mode; sudo rmmod nvidia_uvm helped") == ["suspend-uvm-broken"]
    assert slugs("the GPU becomes unavailable when I start a second program") == []
