# ruff: noqa: E501  printed lines stand in one piece
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


def test_a_plan_that_could_not_be_run_and_one_that_is_not_supported() -> None:
    assert slugs("UserWarning: Plan failed with a CuDNNError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED\nException raised from run_conv_plan at ../Conv_v8.cpp:374")[0] == "cudnn-execution-failed"
    assert not slugs("UserWarning: Plan failed with a cudnnException: cudnnFinalize Descriptor Failed cudnn_status: CUDNN_STATUS_NOT_SUPPORTED (Triggered internally at Conv_v8.cpp:919.)")
