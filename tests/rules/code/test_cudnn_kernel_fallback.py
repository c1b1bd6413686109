import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "WARNING:tensorflow:Layer lstm will not use cuDNN kernels since it doesn't meet the criteria. It "
        "will use a generic GPU kernel as fallback when running on GPU.",
        "depthwise conv fp32: 12.1 ms\n"
        "depthwise conv fp16: 30.2 ms",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "cudnn-kernel-fallback"


@pytest.mark.parametrize(
    "text",
    [
        "depthwise conv fp32: 12.1 ms\n"
        "depthwise conv fp16: 6.2 ms",
    ],
)
def test_neighbours(text: str) -> None:
    assert "cudnn-kernel-fallback" not in slugs(text)
