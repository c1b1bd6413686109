"""The computation on one GPU, as a program, on a fake libcuda: right, wrong, refused, hung. No GPU was at hand."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from parts.machines import build_cuda

from ongpu.probes import compute

PROGRAM = Path(compute.__file__)
pytestmark = pytest.mark.skipif(sys.platform != "linux" or not shutil.which("gcc"), reason="the fake is a library for Linux, built by gcc")


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cuda(tmp_path_factory.mktemp("cuda"))


def run(library: Path | None, fake: str = "", limit: float = 30.0) -> dict[str, Any]:
    environ = {**os.environ, "LD_LIBRARY_PATH": str(library or "/nonexistent"), "FAKE_CUDA": fake}
    done = subprocess.run([sys.executable, "-S", str(PROGRAM)], env=environ, capture_output=True, text=True, timeout=limit, check=True)
    mark, _, told = done.stdout.partition(" ")
    assert (mark, done.stderr) == ("ongpu-compute", "")
    return json.loads(told)  # type: ignore[no-any-return]


def test_a_sound_gpu(cuda: Path) -> None:
    told = run(cuda)
    assert (told["ok"], told["error"], told["name"], told["mib"]) == (True, "", "Fake GPU", 8)


@pytest.mark.parametrize(("fake", "words"), [
    ("memory", "3 of 6291456 numbers came back wrong"), ("wrong", "1 of 65536 results are wrong"),
    ("refuse=cuCtxSynchronize:719", "cuCtxSynchronize: FAKE_ERROR_719 (719)"), ("refuse=cuDevicePrimaryCtxRetain:999", "(999)"),
    ("refuse=cuMemcpyDtoH_v2:214", "(214)"), ("refuse=cuLaunchKernel:220", "(220)"),
])  # fmt: skip
def test_a_gpu_that_is_not(cuda: Path, fake: str, words: str) -> None:
    told = run(cuda, fake)
    assert told["ok"] is False
    assert words in told["error"]


@pytest.mark.parametrize("fake", [
    "refuse=cuInit:100", "refuse=cuModuleLoadData:222", "free=1", "refuse=cuMemAlloc_v2:2", "refuse=cuInit:802",
])  # fmt: skip
def test_what_could_not_be_tried_condemns_nothing(cuda: Path, fake: str) -> None:
    told = run(cuda, fake)
    assert told["ok"] is None
    assert told["error"]


def test_without_a_driver() -> None:
    told = run(None)  # or one that shows no GPU, where the machine of the tests has a library
    assert told["ok"] is None
    assert told["error"]


def test_a_driver_that_hangs_is_for_the_caller_to_end(cuda: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run(cuda, "hang=cuCtxSynchronize", 1.0)


def test_what_is_worked_out_is_exact() -> None:
    assert max(4095 * 3 + 1, 0) < 1 << 24, "a float of 32 bits holds it exactly"
    found = compute.worked_out(8, 1)
    assert list(found) == [(i * 1664525 + 3 * i + 1) & 0xFFFFFFFF for i in range(8)]
    assert b".target sm_50" in compute.PTX
