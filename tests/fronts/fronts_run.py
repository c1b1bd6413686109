"""Runs ongpu as a user does: a whole process."""

import os
import subprocess
import sys


def ongpu(*arguments: str, text: str = "", **environ: str) -> "subprocess.CompletedProcess[str]":
    """The finished process; its output is text."""
    return subprocess.run(
        [sys.executable, "-m", "ongpu", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        encoding="utf-8",
        env={**os.environ, "LC_ALL": "C.UTF-8", **environ},
        check=False,
    )
