import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: expected scalar type Half but found Float",
        "RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float",
        "RuntimeError: Input type (c10::Half) and bias type (float) should be the same",
        "ValueError: Attempting to unscale FP16 gradients.",
        "RuntimeError: \"LayerNormKernelImpl\" not implemented for 'Half'",
        "RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'",
        "RuntimeError: Expected object of scalar type Float but got scalar type Double for argument #2 "
        "'mat1' in call to _th_addmm",
        "RuntimeError: Index put requires the source and destination dtypes match, got Half for the "
        "destination and Float for the source.",
        "RuntimeError: Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be "
        "the same",
        "RuntimeError: FlashAttention only support fp16 and bf16 data type",
        "RuntimeError: Found dtype Double but expected Float",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "dtype-mismatch"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the "
        "same",
    ],
)
def test_neighbours(text: str) -> None:
    assert "dtype-mismatch" not in slugs(text)
