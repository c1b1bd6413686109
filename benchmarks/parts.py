"""What the benchmarks share: environments of their own, and the tests' fake NVML."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path.home() / ".cache" / "ongpu-benchmarks"


def venv(folder: Path, *packages: str) -> Path:
    """The Python of a virtual environment with these packages; made once, and again where they change."""
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    stamp = folder / "packages.txt"
    if not stamp.exists() or stamp.read_text() != "\n".join(packages):
        print(f"making {folder} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], check=True)
        stamp.write_text("\n".join(packages))
    return python


def fake(folder: Path) -> Path:
    """The folder, with the fake libnvidia-ml.so.1 built into it now."""
    if not shutil.which("gcc"):
        raise SystemExit("gcc is needed, to build the fake NVML")
    options = ["-O2", "-fPIC", "-shared", "-pthread", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run(["gcc", *options, "-o", str(folder / "libnvidia-ml.so.1"), str(ROOT / "tests/parts/fake_nvml.c"), "-lm"], check=True)
    return folder
