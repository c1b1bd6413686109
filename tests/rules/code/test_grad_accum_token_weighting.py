import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "gradient accumulation: the loss is not equivalent to the full batch when sequences have a different "
        "number of tokens; num_items_in_batch",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "grad-accum-token-weighting"
