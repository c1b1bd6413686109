import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "E tensorflow/stream_executor/cuda/cuda_blas.cc:226] failed to create cublas handle: "
        "CUBLAS_STATUS_NOT_INITIALIZED",
        "InternalError: Blas GEMM launch failed : a.shape=(100, 784), b.shape=(784, 256), m=100, n=256, k=784",
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, "
        "opb, m, n, k)`",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "cublas-init-failed"


@pytest.mark.parametrize(
    "text",
    [
        "CUBLAS_STATUS_SUCCESS",
    ],
)
def test_neighbours(text: str) -> None:
    assert "cublas-init-failed" not in slugs(text)
