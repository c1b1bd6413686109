import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
        "host memory first.",
        "TypeError: can't convert CUDA tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
        "first.",
        "TypeError: Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a "
        "NumPy array explicitly.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "numpy-on-cuda-tensor"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
    ],
)
def test_neighbours(text: str) -> None:
    assert "numpy-on-cuda-tensor" not in slugs(text)
