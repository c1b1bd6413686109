"""Contexts and workspaces."""

import pytest

from ongpu.knowledge import gpu_memory


def test_contexts_bear_their_source() -> None:
    found = gpu_memory.contexts()
    assert len(found) >= 9
    assert all(one.source.startswith("https://") and 100 < one.mib < 2000 for one in found)
    assert {one.lazy for one in found} == {True, False}


def test_context_by_the_way_kernels_are_loaded() -> None:
    lazy, eager = gpu_memory.context_mib("2.13.0+cu130"), gpu_memory.context_mib("1.10.2")
    assert lazy == gpu_memory.context_mib("1.13.0") < eager
    assert lazy >= max(one.mib for one in gpu_memory.contexts() if one.lazy)


@pytest.mark.parametrize(
    ("library", "capability", "torch", "memory", "kib"),
    [
        ("cublas", "8.0", "2.13.0", 40, 8320),
        ("cublas", "9.0", "2.4.1", 80, 32768),
        ("cublas", "12.0", "2.9.0", 32, 8320),
        ("cublas", "12.0", "2.13.0", 32, 32768),
        ("cublaslt", "8.6", "2.4.0", 12, 1024),
        ("cublaslt", "8.0", "2.4.0", 80, 4096),
        ("cublaslt", "9.0", "2.2.0", 80, 1024),
        ("cublaslt", "9.0", "2.13.0", 80, 0),
        ("cublas", "8.0", "1.10.0", 40, None),
        ("cudnn", "8.0", "2.13.0", 40, None),
        ("cublas", "?", "2.13.0", 40, None),
    ],
)
def test_workspace(library: str, capability: str, torch: str, memory: float, kib: int | None) -> None:
    assert gpu_memory.workspace_kib(library, capability, torch, memory) == kib


def test_one_row_for_each_question() -> None:
    for capability in ("7.5", "8.0", "8.6", "9.0", "10.0", "12.0"):
        for torch in ("2.0", "2.4", "2.10", "2.13"):
            for library in ("cublas", "cublaslt"):
                assert gpu_memory.workspace_kib(library, capability, torch, 80) is not None
