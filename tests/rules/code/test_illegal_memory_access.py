import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: an illegal memory access was encountered\n"
        "CUDA kernel errors might be asynchronously reported at some other API call",
        "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
        "cudaErrorIllegalAddress: an illegal memory access was encountered",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "illegal-memory-access"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: device-side assert triggered",
    ],
)
def test_neighbours(text: str) -> None:
    assert "illegal-memory-access" not in slugs(text)
