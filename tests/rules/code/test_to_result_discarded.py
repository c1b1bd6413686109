import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the "
        "same\n"
        "\n"
        "17:    images.to(device)\n"
        "18:    out = model(images)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "to-result-discarded"


@pytest.mark.parametrize(
    "text",
    [
        "17:    model.to(device)\n"
        "18:    out = model(x)",
        "17:    x = x.to(device)",
    ],
)
def test_neighbours(text: str) -> None:
    assert "to-result-discarded" not in slugs(text)
