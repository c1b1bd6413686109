"""Shared libraries: needs, search paths, GPU architectures."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parts.machines import build_library

from ongpu.hosts import elf


def fatbin(*entries: tuple[int, int]) -> bytes:
    """One fat binary of (kind, architecture) entries, with empty code of 16 bytes."""
    body = b"".join(
        struct.pack("<HHIQ", kind, 1, 64, 16).ljust(28, b"\0") + struct.pack("<I", arch).ljust(36, b"\0") + b"\0" * 16
        for kind, arch in entries
    )
    return struct.pack("<IHHQ", elf.FATBIN_MAGIC, 1, 16, len(body)) + body


def test_architectures() -> None:
    data = b"\0" * 7 + fatbin((elf.CUBIN, 90), (elf.CUBIN, 80)) + b"\0" * 8 + fatbin((elf.PTX, 90), (elf.CUBIN, 120))
    assert elf.fatbin_archs(data, 0, len(data)) == ["compute_90", "sm_80", "sm_90", "sm_120"]
    assert elf.fatbin_archs(b"\0" * 100, 0, 100) == []


@settings(derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400), at=st.integers(0, 400), value=st.integers(0, 255))
def test_no_bytes_crash_it(data: bytes, at: int, value: int, tmp_path: Path) -> None:
    elf.fatbin_archs(data, 0, len(data))
    file = tmp_path / "x.so"
    head = bytearray(b"\x7fELF\x02\x01\x01" + data)
    if at < len(head):
        head[at] = value
    file.write_bytes(bytes(head))
    assert isinstance(elf.describe(file, archs=True), dict)


def test_what_is_not_an_elf_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("INPUT(libx.so.1)")
    assert "error" in elf.describe(tmp_path / "empty")
    assert "error" in elf.describe(tmp_path / "text")
    assert "error" in elf.describe(tmp_path / "nothing")
    assert "error" in elf.describe(tmp_path)


@pytest.mark.real
@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
def test_a_library(tmp_path: Path) -> None:
    path = build_library(tmp_path / "libx.so", "libx.so.1", ("libcudart.so.12", "libcudnn.so.9"), "$ORIGIN/../a:$ORIGIN/b")
    answer = elf.describe(path, archs=True)
    assert answer["needed"][:2] == ["libcudart.so.12", "libcudnn.so.9"]
    assert (answer["soname"], answer["rpath"], answer["runpath"]) == ("libx.so.1", ["$ORIGIN/../a", "$ORIGIN/b"], [])
    assert "archs" not in answer


@pytest.mark.real
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
def test_what_nvcc_builds(tmp_path: Path) -> None:
    (tmp_path / "x.cu").write_text("__global__ void k(float *x) { x[threadIdx.x] *= 2.0f; }\nvoid f(float *x) { k<<<1, 32>>>(x); }\n")
    command = ["nvcc", "-shared", "-cudart", "none", "-Xcompiler", "-fPIC,-nostdlib", "-o", str(tmp_path / "libx.so")]
    codes = ["80,code=sm_80", "90,code=sm_90", "120,code=[sm_120,compute_120]"]
    command += [str(tmp_path / "x.cu"), *(f"-gencode=arch=compute_{code}" for code in codes)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip(f"nvcc cannot build here: {run.stderr[-200:]}")
    assert elf.describe(tmp_path / "libx.so", archs=True)["archs"] == ["compute_120", "sm_80", "sm_90", "sm_120"]
