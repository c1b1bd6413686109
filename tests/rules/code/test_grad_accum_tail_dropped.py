import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "len(train_loader) = 250\n"
        "accumulation_steps = 16\n"
        "if (step + 1) % accumulation_steps == 0:\n"
        "    optimizer.step()",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "grad-accum-tail-dropped"


@pytest.mark.parametrize(
    "text",
    [
        "len(train_loader) = 256\n"
        "accumulation_steps = 16\n"
        "if (step + 1) % accumulation_steps == 0:\n"
        "    optimizer.step()",
    ],
)
def test_neighbours(text: str) -> None:
    assert "grad-accum-tail-dropped" not in slugs(text)
