import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "torch._dynamo hit config.cache_size_limit (64)\n"
        "   function: 'forward' (model.py:12)\n"
        "   last reason: tensor 'L['x']' size mismatch at index 0. expected 2, actual 3",
        "[__recompiles] Recompiling function f in x.py:1\n"
        "[__recompiles] Recompiling function f in x.py:1\n"
        "[__recompiles] Recompiling function f in x.py:1\n",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "torch-compile-recompiles"
