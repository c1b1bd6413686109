import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "You are using a CUDA device ('NVIDIA A100-SXM4-40GB') that has Tensor Cores. To properly utilize "
        "them, you should set `torch.set_float32_matmul_precision('medium' | 'high')` which will trade-off "
        "precision for performance.",
        "UserWarning: TensorFloat32 tensor cores for float32 matrix multiplication available but not "
        "enabled. Consider setting `torch.set_float32_matmul_precision('high')` for better performance.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "no-mixed-precision"
