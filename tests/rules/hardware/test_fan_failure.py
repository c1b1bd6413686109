import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "|   0  NVIDIA GeForce ...  Off  | 00000000:01:00.0 Off |                  N/A |\n"
        "|  0%   88C    P2   212W / 240W |   5000MiB /  8192MiB |     97%      Default |",
        "|   0  NVIDIA GeForce ...  Off  | 00000000:01:00.0 Off |                  N/A |\n"
        "|ERR!   70C    P2   212W / 240W |   5000MiB /  8192MiB |     97%      Default |",
        "GPU fan not spinning, 91 C under load",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["fan-failure"]


@pytest.mark.parametrize(
    "text",
    [
        "|   0  NVIDIA GeForce ...  Off  | 00000000:01:00.0 Off |                  N/A |\n"
        "|  0%   41C    P8    12W / 240W |      1MiB /  8192MiB |      0%      Default |",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "fan-failure" not in slugs(text)
