import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "UserWarning: \n"
        "    There is an imbalance between your GPUs. You may want to exclude GPU 1 which\n"
        "    has less than 75% of the memory or cores of GPU 0. You can do so by setting",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "dataparallel-imbalance"
