import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input and hidden tensors are not at the same device, found input tensor at cuda:0 and "
        "hidden tensor at cpu",
        '  File "model.py", line 40, in forward\n'
        "    x = x + self.make_pos(x)\n"
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cpu!",
        "RuntimeError: All input tensors must be on the same device. Received cuda:0 and cpu",
        '  File "m.py", line 3, in forward\n'
        "    h = torch.cat([x, torch.zeros(4, 8)], 1)\n"
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cpu! (when checking argument for argument tensors in method wrapper_CUDA_cat)",
        "RuntimeError: expected self and mask to be on the same device, but got mask on cpu and self on "
        "cuda:0",
        "RuntimeError: No backend type associated with device type cpu",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "tensor-created-on-cpu"
