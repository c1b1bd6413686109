"""The double check: one small honest computation on every GPU, in the user's interpreter, beside all other questions.

It cannot be run on a GPU in our tests: they prove the protocol with a pretend `torch`. Importing the real one takes
seconds, so it is asked only where it can tell something: a card is on the bus, the driver's nodes are there, and the
interpreter holds a PyTorch that was built for CUDA.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from ongpu.hosts.interpreter import _SITES as SITES
from ongpu.hosts.live import Live
from ongpu.hosts.processes import bounded
from ongpu.model import Evidence

PROGRAM = Path(__file__).parent.parent / "probes" / "framework.py"
KIND, ORIGIN, MARK = "framework-probe", "probe of PyTorch", "ongpu-probe "


def ask(machine: Live, limit: float) -> list[Evidence]:
    """The probe's line; nothing where there is nothing to try."""
    if not machine.python or not worth_it(machine):
        return []
    text, problem = bounded([machine.python, "-c", PROGRAM.read_text("utf-8")], limit, machine.environ, keep=machine.running)
    line = next((line for line in text.splitlines() if line.startswith(MARK)), "")
    if not line and problem is None:
        problem = "the probe did not answer"
    found = [Evidence(KIND, line, ORIGIN, problem=problem)]
    said = [part for part in text.splitlines() if part != line][-40:]  # warnings name causes
    said += _errors(json.loads(line[len(MARK) :]) if line else {})
    if any(part.strip() for part in said):
        found.append(Evidence("pasted", "\n".join(said), f"{ORIGIN} (what it printed)"))
    return found


def _errors(answer: dict[str, Any]) -> list[str]:
    """The errors that the framework raised, as Python prints them."""
    errors = [answer.get("error"), *(device.get("error") for device in answer.get("devices", ()))]
    return [str(error) for error in dict.fromkeys(errors) if error]


def worth_it(machine: Live) -> bool:
    """Whether a card with a driver is there and a CUDA build of PyTorch may be installed."""
    if machine.python is None or Path(machine.python).is_dir():  # a recorded environment runs nothing
        return False
    nodes = list(machine.names("/dev/nvidia[0-9]*", "/dev/dxg"))
    return bool(nodes) and any(built_for_cuda(folder) for folder in site_folders(machine))


def site_folders(machine: Live) -> list[Path]:
    """Where that interpreter most likely keeps its packages; PYTHONPATH included. Nothing is run to find out."""
    python = Path(machine.python or "")
    prefixes = dict.fromkeys((python.parent.parent, Path(os.path.realpath(python)).parent.parent))
    found = [Path(p) for p in machine.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    for prefix in prefixes:
        for site in SITES:
            found += [*prefix.glob(f"lib/python3*/{site}"), *prefix.glob(f"local/lib/python3*/{site}"), *prefix.glob(f"Lib/{site}")]
            found += list(prefix.glob(f"lib/python3/{site}"))
    home = machine.environ.get("HOME")
    return found + (list(Path(home).glob(".local/lib/python3*/site-packages")) if home else [])


def built_for_cuda(site: Path) -> bool:
    """Whether the PyTorch there says that it was built for CUDA; one whose version file is elsewhere is tried."""
    try:
        text = (site / "torch" / "version.py").read_text("utf-8", "replace")
    except OSError:
        return False
    return re.search(r"^cuda\s*(?::[^=\n]+)?=\s*None", text, re.MULTILINE) is None
