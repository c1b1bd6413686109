import pytest
from asking import explain, slugs


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


NAMES = """\
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("a/chat")
model = AutoModelForCausalLM.from_pretrained("a/base").cuda()
model.generate(tokenizer("a", return_tensors="pt").to("cuda").input_ids)
"""
ERROR = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"


def test_a_tokenizer_and_a_model_of_two_names() -> None:
    assert [f.variant for f in explain(ERROR, NAMES).findings if f.slug == "cublas-init-failed"] == ["vocabulary"]
    assert [f.variant for f in explain(ERROR, NAMES.replace("a/base", "a/chat")).findings if f.slug == "cublas-init-failed"] == [""]
