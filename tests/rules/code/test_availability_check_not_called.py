import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        'device = torch.device("cuda" if torch.cuda.is_available else "cpu")',
        "if torch.cuda.is_available:\n"
        "    net.cuda()",
        "<function is_available at 0x7f2d1c0>",
        "use_cuda = torch.cuda.is_available and not args.no_cuda",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "availability-check-not-called"


@pytest.mark.parametrize(
    "text",
    [
        'device = "cuda" if torch.cuda.is_available() else "cpu"',
        "torch.cuda.is_available returns False",
    ],
)
def test_neighbours(text: str) -> None:
    assert "availability-check-not-called" not in slugs(text)
