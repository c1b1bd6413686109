"""NVML, asked in a child process: a driver that hangs must not hang us."""

import sys

from ongpu.hosts.live import Live, bounded


def ask(machine: Live, limit: float) -> tuple[str, str | None]:
    """What `nvml_child` prints, one JSON object a line. After a time-out the lines so far tell where it hung."""
    if machine.system == "macos":
        return "", None
    return bounded([sys.executable, "-m", "ongpu.hosts.nvml_child"], limit, machine.environ)
