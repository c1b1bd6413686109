
import pytest
from asking import lint, linted, slugs


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


SETUP = "import torch\nmodel = torch.nn.Linear(4, 2)\n"


@pytest.mark.parametrize(
    "text",
    [
        'device = "cuda" if torch.cuda.is_available else "cpu"\nmodel.to(device)',
        "if torch.cuda.is_available:\n    model.cuda()",
        "use = torch.cuda.is_available and True",
        "while not torch.cuda.is_available:\n    pass",
    ],
)
def test_found_in_source(text: str) -> None:
    (finding,) = [f for f in lint(SETUP + text).findings if f.slug == "availability-check-not-called"]
    assert finding.refs[0].line == 3
    assert [e.text for e in finding.edits] == ["()"]


@pytest.mark.parametrize(
    "text",
    [
        'device = "cuda" if torch.cuda.is_available() else "cpu"\nmodel.to(device)',
        "check = torch.cuda.is_available\nif check():\n    model.cuda()",
        "use = [f() for f in (torch.cuda.is_available,)]",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "availability-check-not-called" not in linted(SETUP + text)
