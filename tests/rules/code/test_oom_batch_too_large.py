import pytest
from asking import explain_files, slugs
from parts import profiles
from parts.dryruns import GIB, full
from parts.dryruns import slugs as run_slugs

from ongpu.model import Severity


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 10.76 GiB total capacity; 8.90 "
        "GiB already allocated; 700.00 MiB free; 9.20 GiB reserved in total by PyTorch)",
        "ResourceExhaustedError: OOM when allocating tensor with shape[32,256,128,128] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
        "Error: cuDNN isn't found FWD algo for convolution.",
        "CUDA Error: out of memory\n"
        "darknet: ./src/utils.c:256: error: Assertion `0' failed.",
        "THCudaCheck FAIL file=/pytorch/aten/src/THC/generic/THCStorage.cu line=58 error=2 : out of memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 GiB. GPU 0 has a total "
        "capacity of 23.65 GiB of which 20.0 GiB is free. Including non-PyTorch memory, this process has "
        "3.40 GiB memory in use. Of the allocated memory 3.00 GiB is allocated by PyTorch, and 50.00 MiB is "
        "reserved by PyTorch but unallocated.",
        "RuntimeError: CUDA 错误: 内存不足",
        "torch.OutOfMemoryError: CUDA 内存不足。尝试分配 2.00 GiB。GPU 0 的总容量为 23.65 GiB",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "oom-batch-too-large"


@pytest.mark.parametrize(
    "text",
    [
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1000 bytes",
        "step 3 took 2 s; to avoid out of memory errors lower the batch size",
    ],
)
def test_neighbours(text: str) -> None:
    assert "oom-batch-too-large" not in slugs(text)


def test_a_snapshot_of_memory_that_is_really_in_use() -> None:
    report = explain_files(profiles.pickled(profiles.snapshot(oom=5 << 30)))
    assert [f.slug for f in report.findings if f.weight > Severity.NOTE] == ["oom-batch-too-large"]
    assert report.findings[0].values["free"] == "100.0 MiB"
    assert "project/train.py:30 forward" in str(report.findings[0].values["owners"])


def test_a_dry_run_whose_activations_fill_the_card() -> None:
    assert run_slugs(**full("forward", weight=GIB, activation=20 * GIB)) == ["oom-batch-too-large"]
