"""NVIDIA's real user space (Debian's 535: nvidia-smi, libcuda1, libnvidia-ml1) without a kernel driver."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from parts.machines import BOOT, Box

from ongpu.facts.driver import Driver
from ongpu.hosts import nvml
from ongpu.hosts.live import Live
from ongpu.sources.nvml import SOURCES


def _loadable() -> bool:
    code = "import ctypes; ctypes.CDLL('libnvidia-ml.so.1')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform != "linux", reason="the parts are Debian's"),
    pytest.mark.skipif(not _loadable(), reason="libnvidia-ml.so.1 is not installed: sh tools/install_real_parts (Debian, root)"),
    pytest.mark.skipif(os.path.exists("/proc/driver/nvidia/version"), reason="this machine has the kernel driver too"),
]


def doctor(*arguments: str) -> tuple[dict[str, object], list[str]]:
    """The whole process: its answer, and the slugs of errors and warnings."""
    environ = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
    run = subprocess.run(
        [sys.executable, "-m", "ongpu", "doctor", *arguments, "--format", "json"],
        capture_output=True, text=True, env=environ, timeout=60, check=False,
    )  # fmt: skip
    answer = json.loads(run.stdout)
    assert run.returncode in (0, 1, 3), run.stderr
    return answer, [f["slug"] for f in answer["findings"] if f["severity"] != "note"]


def test_the_real_library_says_that_the_module_is_missing() -> None:
    evidence = nvml.ask(Live(), 20.0)
    driver = next(iter(SOURCES[0].read(evidence[0])))
    assert isinstance(driver, Driver)
    assert driver.nvml == "Driver Not Loaded"
    said = subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=False).stdout
    assert evidence[1].text.split() == said.split()  # our words for it are nvidia-smi's own


def test_with_a_card_the_module_is_the_problem(tmp_path: Path) -> None:
    box = Box(cards=2, module=None, modules=[], bus_driver="", log=[BOOT], driver="535.247.01")
    box.write(tmp_path)
    answer, slugs = doctor("--root", str(tmp_path), "--python", str(box.python))
    assert slugs == ["driver-module-not-loaded"]
    assert "modprobe nvidia" in json.dumps(answer["findings"])


def test_with_a_card_and_no_module_for_this_kernel(tmp_path: Path) -> None:
    box = Box(cards=2, module=None, modules=[], bus_driver="", log=[BOOT], on_disk=False)
    box.write(tmp_path)
    assert doctor("--root", str(tmp_path), "--python", str(box.python))[1] == ["driver-module-build-failed"]


def test_without_a_card_that_is_the_answer(tmp_path: Path) -> None:
    box = Box(cards=1, absent=(0,), module=None, modules=[], bus_driver="", log=[BOOT], driver=None, packages={})
    box.write(tmp_path)
    assert doctor("--root", str(tmp_path), "--python", str(box.python))[1] == ["no-nvidia-gpu"]


def test_this_machine() -> None:
    if any(Path(p).read_text().strip() == "0x10de" for p in Path("/sys/bus/pci/devices").glob("*/vendor")):
        pytest.skip("this machine has an NVIDIA device")
    assert doctor()[1] == ["no-nvidia-gpu"]
