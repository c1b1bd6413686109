import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: invalid device ordinal",
        "AssertionError: Invalid device id",
        "lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu: [1]\n"
        " But your machine only has: [0]",
        "ValueError: Invalid CUDA 'device=1' requested. Use 'device=cpu' or pass valid CUDA device(s) if "
        "available, i.e. 'device=0' or 'device=0,1,2,3' for Multi-GPU.\n"
        "\n"
        "torch.cuda.is_available(): True\n"
        "torch.cuda.device_count(): 1",
        "InvalidArgumentError: Cannot assign a device for operation 'x': Operation was explicitly assigned "
        "to /device:GPU:1 but available devices are [ /job:localhost/replica:0/task:0/device:CPU:0, "
        "/job:localhost/replica:0/task:0/device:GPU:0 ]. Make sure the device specification refers to a "
        "valid device.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "invalid-device-ordinal"
