"""The parts that live tests share."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from parts.machines import build_nvml

MEMORY = "/dev/shm"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory, gone at once: a machine with 64 GPUs has about a thousand files."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fake libnvidia-ml.so.1, built now."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc: the fake NVML cannot be built")
    return build_nvml(tmp_path_factory.mktemp("nvml"))
