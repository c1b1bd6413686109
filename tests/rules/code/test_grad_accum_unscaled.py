import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "gradient_accumulation_steps=1 loss 2.11\n"
        "gradient_accumulation_steps=4 loss 8.45\n",
        "bs  accum steps  loss\n"
        "8    1    2.1\n"
        "4    2    4.2\n"
        "2    4    8.4\n",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "grad-accum-unscaled"


@pytest.mark.parametrize(
    "text",
    [
        "gradient_accumulation_steps=1 loss 2.11\n"
        "gradient_accumulation_steps=4 loss 2.12\n",
    ],
)
def test_neighbours(text: str) -> None:
    assert "grad-accum-unscaled" not in slugs(text)
