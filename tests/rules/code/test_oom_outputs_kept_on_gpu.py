import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        '  File "/x/transformers/trainer.py", line 2515, in evaluation_loop\n'
        "    preds_host = logits if preds_host is None else nested_concat(preds_host, logits, "
        "padding_index=-100)\n"
        "RuntimeError: CUDA out of memory.",
        "    feats.append(model(x))\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; "
        "9.71 GiB already allocated; 20.44 MiB free; 9.80 GiB reserved in total by PyTorch)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "oom-outputs-kept-on-gpu"
