import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        '  File "/x/torch/utils/data/sampler.py", line 124, in __iter__\n'
        "    yield from torch.randperm(n, generator=generator).tolist()\n"
        "RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'",
        "RuntimeError: Expected a 'cuda:0' generator device but found 'cpu'",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "default-device-cuda"
