"""NVML, asked in a child process: a driver that hangs must not hang us."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from ongpu.hosts.live import Live, output
from ongpu.hosts.processes import lines_of
from ongpu.model import Evidence

SILENCE = 15.0  # seconds without an answer to one call that we wait: a card without persistence mode takes seconds to start
ORIGIN = "NVML"
# Where the driver's libraries lie on systems whose loader does not look there by itself: WSL, NixOS, Kubernetes nodes of GKE.
FOLDERS = ("/usr/lib/wsl/lib", "/run/opengl-driver/lib", "/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu/nvidia/current")
# What nvidia-smi prints for these codes of nvmlInit (nvml.h: nvmlReturn_t); for all others "Failed to initialize NVML: " and the words.
NOT_FOUND, NOT_LOADED = 12, 9
SMI_WORDS = {
    NOT_LOADED: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.",
}


def ask(machine: Live, limit: float) -> list[Evidence]:
    """What `nvml_start` and `nvml_child` print, one JSON object a line; after a time-out the lines so far tell where it hung.

    An error is told once more in nvidia-smi's words, so that all that is known of these applies. Where the library
    cannot be loaded, nvidia-smi is asked itself, if it is there: it may know the way.
    """
    if machine.system == "macos":
        return []
    text, problem = _child(machine, limit)
    if _code(text) == NOT_FOUND and machine.system == "linux":
        extra = [folder for folder in FOLDERS if os.path.exists(machine.place(f"{folder}/libnvidia-ml.so.1"))]
        if extra and machine.commands:
            text, problem = _child(machine, limit, extra)
    found = [Evidence("nvml", text, ORIGIN, problem=problem)]
    if _code(text) == NOT_FOUND:
        said, failed = output(machine, ["nvidia-smi"], 10.0)
        if failed != "not found":
            found.append(Evidence("pasted", said, "nvidia-smi", "nvidia-smi", problem=failed))
    elif words := said_by_smi(text):
        found.append(Evidence("pasted", words, f"{ORIGIN} (as nvidia-smi says it)", readers=("nvidia-smi", "symptoms")))
    return found


def _child(machine: Live, limit: float, extra: list[str] | None = None) -> tuple[str, str | None]:
    environ = environment(machine.environ, extra)
    program = "import sys; from ongpu.hosts.nvml_start import main; main(sys.argv[1])"  # imported: a script is compiled each time
    return lines_of([sys.executable, "-P", "-S", "-c", program, str(machine.root)], SILENCE, limit, environ)


def environment(environ: Mapping[str, str], extra: Sequence[str] | None = None) -> dict[str, str]:
    """What a child that asks NVML gets: ours and nvidia-ml-py to import, not the user's; other folders for the driver's libraries."""
    found = dict(environ)
    if extra:
        found["LD_LIBRARY_PATH"] = ":".join(filter(None, [found.get("LD_LIBRARY_PATH", ""), *extra]))
    spec = find_spec("pynvml")
    ours = os.path.abspath(os.path.join(__file__, "..", "..", ".."))
    found["PYTHONPATH"] = os.pathsep.join([ours, *([os.path.dirname(spec.origin)] if spec and spec.origin else [])])
    return found


def _code(text: str) -> int | None:
    """The error of nvmlInit; 0 for success, None where it never answered."""
    for line in text.splitlines():
        if line.startswith('{"init": '):
            return int(json.loads(line).get("code", 0))
    return None


def said_by_smi(text: str) -> str:
    """The errors among the child's lines, as nvidia-smi prints them."""
    words = []
    for line in text.splitlines():
        item = json.loads(line) if line.startswith("{") else {}
        if item.get("code"):
            words.append(SMI_WORDS.get(item["code"], f"Failed to initialize NVML: {item['init']}") if "init" in item else "")
        elif "count" in item and item["count"] == 0:
            words.append("No devices were found")
        elif isinstance(item.get("error"), str) and "gpu" in item:
            words.append(f"Unable to determine the device handle for GPU{item['gpu']}: {item['error']}")
    return "\n".join(filter(None, words))
