import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        '  File "train.py", line 80, in validate\n'
        "    out = model(x)\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; "
        "9.71 GiB already allocated; 20.44 MiB free; 9.80 GiB reserved in total by PyTorch)",
        "The training works but I get out of memory during validation:\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; "
        "9.71 GiB already allocated; 20.44 MiB free; 9.80 GiB reserved in total by PyTorch)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "oom-eval-with-grad"
