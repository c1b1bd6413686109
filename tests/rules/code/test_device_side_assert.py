import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "../aten/src/ATen/native/cuda/Loss.cu:242: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], "
        "thread: [5,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
        "RuntimeError: CUDA error: device-side assert triggered",
        "RuntimeError: cuda runtime error (59) : device-side assert triggered at "
        "/pytorch/aten/src/THC/generic/THCTensorMath.cu:26",
        "/opt/conda/conda-bld/pytorch/aten/src/ATen/native/cuda/TensorCompare.cu:110: "
        "_assert_async_cuda_kernel: block: [0,0,0], thread: [0,0,0] Assertion `probability tensor contains "
        "either `inf`, `nan` or element < 0` failed.",
        "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:605: indexSelectSmallIndex: block: [0,0,0], thread: "
        "[0,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "device-side-assert"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "AssertionError: assert x > 0",
    ],
)
def test_neighbours(text: str) -> None:
    assert "device-side-assert" not in slugs(text)
