import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA GeForce RTX 5090\n"
        "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 802: system "
        "not yet initialized",
        "cuInit() -> 3 (CUDA_ERROR_NOT_INITIALIZED)\n"
        "$ modinfo -F license nvidia\n"
        "Dual MIT/GPL\n"
        "$ uname -r\n"
        "6.12.0-55.37.1.el10_0.x86_64",
        "cu->cuInit(0) failed -> CUDA_ERROR_NOT_INITIALIZED: initialization error\n"
        "workaround: options nvidia_uvm uvm_disable_hmm=1",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["uvm-hmm-init-failure"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5c89a62c-a0b5-4d77-b7d5-6b4f0d6b2a34)\n"
        "Error 802: system not yet initialized",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "uvm-hmm-init-failure" not in slugs(text)
