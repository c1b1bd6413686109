import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "InvalidArgumentError: Cannot assign a device for operation 'a': Could not satisfy explicit device "
        "specification '/device:GPU:0' because no supported kernel for GPU devices is available.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "tf-op-without-gpu-kernel"


@pytest.mark.parametrize(
    "text",
    [
        "InvalidArgumentError: Cannot assign a device for operation 'a': Operation was explicitly assigned "
        "to /device:GPU:0 but available devices are [ /job:localhost/replica:0/task:0/device:CPU:0 ].",
    ],
)
def test_neighbours(text: str) -> None:
    assert "tf-op-without-gpu-kernel" not in slugs(text)
