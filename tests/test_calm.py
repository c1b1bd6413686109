"""No alarm where the report itself shows that things work, or that they are meant so."""

import pytest
from asking import notes, slugs

FINE = {
    "nccl": "NCCL INFO NET/IB : No device found.\nNCCL INFO Using network Socket\nNCCL INFO comm 0x5 rank 0 nranks 2 - Init COMPLETE",
    "triton": "[WARNING]  using untested triton version (2.0.0), only 1.0.0 is known to be compatible",
    "bitsandbytes": "CUDA SETUP: Loading binary /venv/lib/python3.10/site-packages/bitsandbytes/libbitsandbytes_cuda118.so...",
    "aer": "nvidia 0000:65:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    "vllm": "INFO [gpu_worker.py:227] Available KV cache memory: 4.90 GiB\nINFO:     Application startup complete.",
    "jax": "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed. Falling back to cpu.\n"
    "The CPU is used on purpose.",
    "retired": "    Retired Pages\n        Single Bit ECC                    : N/A\n        Double Bit ECC                    : N/A",
    "provider": "UserWarning: Specified provider 'CoreMLExecutionProvider' is not in available provider names.Available providers: "
    "'CUDAExecutionProvider, CPUExecutionProvider'",
    "dxgkio": "misc dxg: dxgk: dxgkio_query_adapter_info: Ioctl failed: -22\ntorch.cuda.is_available() -> True in WSL2",
    "quota": "OSError: [Errno 122] Disk quota exceeded: '/home/u/.cache/huggingface/hub/x'",
}


@pytest.mark.parametrize("text", FINE.values(), ids=FINE.keys())
def test_no_alarm(text: str) -> None:
    assert slugs(text) == []


def test_a_note_is_told() -> None:
    assert "healthy" in notes(FINE["nccl"])
    assert "not-gpu-related" in notes(FINE["quota"])


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("NCCL INFO NET/IB : No device found.\nNCCL WARN Call to connect returned Connection refused", "nccl-network-interface"),
        (
            "CUDA SETUP: Required library version not found: libbitsandbytes_cuda118.so. Maybe you need to compile it from source?",
            "companion-package-mismatch",
        ),
        ("DRAM Uncorrectable Error\nNVRM: Xid (PCI:0000:07:00): 48, Double Bit ECC Error", "ecc-uncorrectable"),
    ],
)
def test_faults_are_still_found(text: str, slug: str) -> None:
    assert slug in slugs(text)
