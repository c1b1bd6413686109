import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "UnknownError: Failed to get convolution algorithm. This is probably because cuDNN failed to "
        "initialize, so try looking to see if a warning log message was printed above.",
        "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution",
        "RuntimeError: GET was unable to find an engine to execute this computation",
        "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "cudnn-execution-failed"


@pytest.mark.parametrize(
    "text",
    [
        "CUDNN_STATUS_SUCCESS",
    ],
)
def test_neighbours(text: str) -> None:
    assert "cudnn-execution-failed" not in slugs(text)
