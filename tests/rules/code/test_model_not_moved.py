import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the "
        "same or input should be a MKLDNN tensor and weight is a dense tensor",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cpu "
        "and cuda:0! (when checking argument for argument mat1 in method wrapper_CUDA_addmm)",
        "RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but "
        "found one of them on device: cpu",
        "RuntimeError: Tensor for 'out' is on CPU, Tensor for argument #1 'self' is on CPU, but expected "
        "them to be on GPU (while checking arguments for addmm)",
        "RuntimeError: Expected object of backend CPU but got backend CUDA for argument #4 'mat1'",
        "RuntimeError: Expected object of type torch.FloatTensor but found type torch.cuda.FloatTensor for "
        "argument #4 'mat1'",
        "ValueError: DistributedDataParallel device_ids and output_device arguments only work with "
        "single-device/multiple-device GPU modules or CPU modules, but got device_ids [0], output_device 0, "
        "and module parameters {device(type='cpu')}.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "model-not-moved"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the "
        "same",
    ],
)
def test_neighbours(text: str) -> None:
    assert "model-not-moved" not in slugs(text)
