"""The fake NVML for the tests of the queue."""

import shutil
from pathlib import Path

import pytest
from parts.machines import build_nvml


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fake libnvidia-ml.so.1, built now."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc: the fake NVML cannot be built")
    return build_nvml(tmp_path_factory.mktemp("nvml"))
