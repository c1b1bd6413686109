"""Interpreters with real frameworks, for tests marked `real`: this one, or those that ONGPU_TEST_PYTHONS names (os.pathsep between)."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"


@cache
def _has(python: str, modules: tuple[str, ...]) -> bool:
    code = f"import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in {modules!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, timeout=60, check=False).returncode == 0


def with_modules(*modules: str) -> str:
    """An interpreter that holds these modules and what ongpu needs; the test is skipped where there is none."""
    return bare(*modules, "packaging", "pynvml", "yaml")


def bare(*modules: str) -> str:
    """An interpreter that holds these modules, as a user's may; the test is skipped where there is none."""
    for python in (*filter(None, os.environ.get("ONGPU_TEST_PYTHONS", "").split(os.pathsep)), sys.executable):
        if _has(python, modules):
            return python
    pytest.skip(f"no interpreter with {', '.join(modules)}: see ONGPU_TEST_PYTHONS")


def old_torch() -> str:
    """The interpreter with the oldest PyTorch that the dry run follows; the test is skipped where there is none."""
    python = SRC.parent / ".venv-torch24" / "bin" / "python"
    if not python.exists() or not _has(str(python), ("torch",)):
        pytest.skip("no interpreter with PyTorch 2.4: tools/install_old_torch makes one")
    return str(python)


def run(python: str, *arguments: str, cwd: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    """The finished process, with our source on its path, speaking English."""
    env = {**os.environ, "PYTHONPATH": str(SRC), "LC_ALL": "C.UTF-8", "LANGUAGE": "en", "PYTHONWARNINGS": "ignore", **environ}
    return subprocess.run([python, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)
