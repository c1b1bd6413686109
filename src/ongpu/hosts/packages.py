"""The distribution's packages that belong to the GPU, read from the package manager's own files where they can be."""

import re
from collections.abc import Iterable

from ongpu.hosts.live import Live, output
from ongpu.lazy import lazy
from ongpu.model import Evidence

_OURS = lazy(
    r"nvidia|cuda|cudnn|nccl|cublas|nvjitlink|^dkms$|^linux-(?:headers|image|modules|objects|signatures)|^kernel(?:-devel|-headers|-core)?$|"
    r"kmod|datacenter-gpu|fabricmanager|^firmware-misc-nonfree|^linux(?:-lts|-zen)?(?:-headers)?$|container-toolkit"
)
KIND = "system-packages"
# dpkg's words for how far a package is installed, and the letter that `dpkg -l` prints for them: dpkg-query(1)
_STATES = {
    "not-installed": "n", "config-files": "c", "half-installed": "H", "unpacked": "U", "half-configured": "F",
    "triggers-awaited": "W", "triggers-pending": "t", "installed": "i",
}  # fmt: skip
_WANTED = {"unknown": "u", "install": "i", "hold": "h", "deinstall": "r", "purge": "p"}


def ask(machine: Live, limit: float) -> list[Evidence]:
    """The list, as `dpkg -l`, `rpm -qa` or `pacman -Q` print it, and the last updates of the driver."""
    found = []
    if status := machine.text("/var/lib/dpkg/status", 64 << 20):
        found.append(Evidence(KIND, "\n".join(dpkg(status)), "dpkg -l", "dpkg -l"))
        if history := "\n\n".join(apt_history(machine.text("/var/log/apt/history.log", 8 << 20))):
            found.append(Evidence(KIND, history, "/var/log/apt/history.log"))
        return found
    for argv in (("rpm", "-qa"), ("pacman", "-Q")):
        text, problem = output(machine, argv, limit)
        if problem != "not found":
            lines = "\n".join(line for line in text.splitlines() if _OURS.search(line.split(" ")[0]))
            return [Evidence(KIND, lines, " ".join(argv), " ".join(argv), problem=problem)]
    return []


def dpkg(status: str) -> Iterable[str]:
    """The packages that matter of dpkg's status file, as `dpkg -l` prints them."""
    for block in status.split("\n\n"):
        field, _, name = block.lstrip("\n").partition("\n")[0].partition(": ")  # dpkg writes the name first
        if field != "Package" or not _OURS.search(name):
            continue
        state = re.search(r"^Status: (\S+) \S+ (\S+)$", block, re.MULTILINE)
        version = re.search(r"^Version: (\S+)$", block, re.MULTILINE)
        if state and version and state[2] != "not-installed":
            architecture = re.search(r"^Architecture: (\S+)$", block, re.MULTILINE)
            letters = _WANTED.get(state[1], "u") + _STATES.get(state[2], "i")
            yield f"{letters}  {name}  {version[1]}  {architecture[1] if architecture else 'all'}"


def apt_history(text: str) -> Iterable[str]:
    """The last runs of apt that touched the driver, each with only the packages that matter."""
    runs = [run for run in text.split("\n\n") if "nvidia" in run or "cuda" in run]
    for run in runs[-6:]:
        lines = []
        for line in run.strip().splitlines():
            name, _, rest = line.partition(": ")
            if name in ("Install", "Upgrade", "Remove", "Purge", "Downgrade", "Reinstall"):
                ours = [item for item in re.findall(r"[^\s,][^(]*\([^)]*\)", rest) if _OURS.search(item)]
                if ours:
                    lines.append(f"{name}: {', '.join(ours)}")
            elif name in ("Start-Date", "End-Date", "Commandline"):
                lines.append(line)
        yield "\n".join(lines)
