import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        '  File "net.py", line 12, in forward\n'
        "    x = self.layers[i](x)\n"
        '  File "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", line 114, in forward\n'
        "    return F.linear(input, self.weight, self.bias)\n"
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cpu "
        "and cuda:0! (when checking argument for argument mat1 in method wrapper_CUDA_addmm)",
        "ValueError: optimizer got an empty parameter list",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "module-not-registered"
