import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 17000",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "ddp-all-ranks-on-gpu0"
