import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "ImportError: /x/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister",
        "node1:1:2 [0] NCCL INFO NCCL version 2.14.3+cuda11.7\n"
        "node2:1:2 [0] NCCL INFO NCCL version 2.18.1+cuda12.1",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "nccl-version-mismatch"


@pytest.mark.parametrize(
    "text",
    [
        "node1:1:2 [0] NCCL INFO NCCL version 2.14.3+cuda11.7",
    ],
)
def test_neighbours(text: str) -> None:
    assert "nccl-version-mismatch" not in slugs(text)
