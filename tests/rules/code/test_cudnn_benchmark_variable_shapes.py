import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "torch.backends.cudnn.benchmark = True\n"
        "Every image has a different size, and each iteration is slow",
        "Running performance tests to find the best convolution algorithm, this can take a while... (set the "
        "environment variable MXNET_CUDNN_AUTOTUNE_DEFAULT to 0 to disable)\n"
        "Running performance tests to find the best convolution algorithm, this can take a while... (set the "
        "environment variable MXNET_CUDNN_AUTOTUNE_DEFAULT to 0 to disable)\n"
        "Running performance tests to find the best convolution algorithm, this can take a while... (set the "
        "environment variable MXNET_CUDNN_AUTOTUNE_DEFAULT to 0 to disable)\n"
        "Running performance tests to find the best convolution algorithm, this can take a while... (set the "
        "environment variable MXNET_CUDNN_AUTOTUNE_DEFAULT to 0 to disable)\n",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "cudnn-benchmark-variable-shapes"


@pytest.mark.parametrize(
    "text",
    [
        "torch.backends.cudnn.benchmark = True",
    ],
)
def test_neighbours(text: str) -> None:
    assert "cudnn-benchmark-variable-shapes" not in slugs(text)
