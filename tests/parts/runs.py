"""`ongpu run` as a user starts it, on a recorded machine with the fake NVML."""

import os
import subprocess
import sys
from pathlib import Path

from parts.machines import Box


class Machine:
    """A recorded machine with GPUs, on which commands are run."""

    def __init__(self, folder: Path, library: Path, *nvml: str, cards: int = 4, **files: str) -> None:
        self.folder = folder
        self.box = Box(cards=cards, nvml=["reload = 1", *nvml], files={path.replace("__", "/"): text for path, text in files.items()})
        self.box.write(folder / "root")
        mine = self.box.environment(library)
        self.environ = {
            **os.environ, "LC_ALL": "C.UTF-8", "ONGPU_LEASES": str(folder / "leases"), "FAKE_NVML": mine["FAKE_NVML"],
            "LD_LIBRARY_PATH": mine["LD_LIBRARY_PATH"],
        }  # fmt: skip
        self.environ.pop("CUDA_VISIBLE_DEVICES", None)

    def line(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "ongpu", "run", "--no-kernel-log", "--root", str(self.folder / "root"), *arguments]

    def run(self, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.line(*arguments), capture_output=True, text=True, timeout=60, env={**self.environ, **environ}, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.line(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environ, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip

    def says(self, *nvml: str) -> None:
        """The driver says this too, from now on."""
        path = self.folder / "root/.ongpu/nvml.txt"
        new = path.with_suffix(".new")
        new.write_text(path.read_text() + "\n".join(nvml) + "\n")
        new.rename(path)


def gpu(index: int) -> str:
    """The UUID that the fake NVML gives to a GPU."""
    return f"GPU-fa4e0000-0000-4000-8000-{index:012x}"


def slice_of(index: int, number: int) -> str:
    """The UUID that it gives to a MIG device."""
    return f"MIG-fa4e0000-0000-4000-8{number:03x}-{index:012x}"
