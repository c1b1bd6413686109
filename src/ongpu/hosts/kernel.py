"""The kernel's log and the services around the driver, each asked with one quick command."""

from collections.abc import Callable

from ongpu.hosts.live import Live, output
from ongpu.lazy import lazy
from ongpu.model import Evidence

UNITS = ("nvidia-fabricmanager", "nvidia-persistenced", "nvidia-gridd", "nvidia-imex", "docker")
JOURNAL = ("journalctl", "-k", "-b", "-n", "20000", "--no-pager", "-o", "short-monotonic")
# Lines that can matter; all others (network, disks, people's names) are not read, and never enter a snapshot.
# In lower case: a search for words takes a tenth of the time of one regular expression for all, in a log of 20,000 lines.
_WORDS = (
    "nvrm", "nvidia", "nouveau", "sxid", "nvswitch", "pcie bus error", "link is down", "no space for [mem", "can't claim bar",
    "dmar", "amd-vi", "swiotlb", "oom-kill", "out of memory", "killed process", "oom_reaper", "secureboot", "secure boot", "lockdown",
    "module verification", "loading of module", "loading of unsigned module", "command line", "hung_task", "blocked for more than",
    "soft lockup", "mce:", "hardware error", "thermal", "hypervisor", "pkcs#7", "x86/pat", "suspend", "hibernation", "acpi: pm",
    "acpi: preparing", "pm: ", "gsp_", "gpu_", "machine check",
)  # fmt: skip
_SHAPES = lazy(
    r"\bxid\b|\baer\b|\biommu|bar \d+\b.*(?:no space|fail|can't|unassigned|not assigned|no compatible|ignor)",
)
_IN_SHAPES = ("xid", "aer", "iommu", "bar ")
# What can be in a line of the kernel: the sources that look for it.
READERS = ("kernel-log", "driver-state", "symptoms", "commands")
MOST = 4000  # lines that are kept: the last ones, and the first, which tells how the kernel was booted
_DENIED = ("Operation not permitted", "Permission denied", "You are currently not seeing messages", "No journal files were opened")


def log(machine: Live, limit: float) -> list[Evidence]:
    """The kernel's messages that can matter, with their line numbers; of the journal where dmesg is forbidden."""
    problem = None
    for argv in (("dmesg", "--color=never"), JOURNAL):
        text, failed = output(machine, argv, limit)
        if text.strip() and not any(words in text[:400] for words in _DENIED):
            return [excerpt(text, argv[0])]
        problem = problem or ("denied" if any(words in text for words in _DENIED) else failed)
    if not machine.commands and (text := machine.text("/var/log/kern.log", 8 << 20)):
        return [excerpt(text, "/var/log/kern.log")]
    return [Evidence("kernel-log", "", "dmesg", "dmesg", problem=problem or "empty")]


def _matter(text: str) -> Callable[[str], bool]:
    """Which lines of this log can matter."""
    low = text.lower()
    words = [word for word in _WORDS if word in low]
    shaped = [word for word in _IN_SHAPES if word in low]

    def ours(line: str) -> bool:
        low = line.lower()
        for word in words:  # not any(): of some thousand lines most are none of ours, and a generator each takes twice as long
            if word in low:
                return True
        for word in shaped:
            if word in low:
                return _SHAPES.search(low) is not None
        return False

    return ours


def excerpt(text: str, origin: str) -> Evidence:
    """The lines of a kernel log that can matter. Not its first: that tells of the compiler and system that built the kernel."""
    ours = _matter(text)
    kept = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line and ours(line) and "Linux version" not in line]
    if not kept:  # a log was read, and it holds nothing of ours
        return Evidence("kernel-log", "", origin, origin)
    kept = kept[:1] + kept[1:][-MOST:]
    return Evidence(
        "pasted", "\n".join(line for _, line in kept), origin, "dmesg" if origin == "dmesg" else "journalctl -k -b",
        numbers=tuple(number for number, _ in kept), readers=READERS,
    )  # fmt: skip


def module(machine: Live, limit: float) -> list[Evidence]:
    """The line of /proc/driver/nvidia/version that names the loaded module; the other names the compiler that built it."""
    del limit
    path = "/proc/driver/nvidia/version"
    lines = [line for line in machine.text(path).splitlines() if line.startswith("NVRM version")]
    return [Evidence("pasted", lines[0], path, f"cat {path}", readers=READERS)] if lines else []


def services(machine: Live, limit: float) -> tuple[str, str | None]:
    """The units' states, one a line as `systemctl list-units --all` prints them; nothing where systemd does not run."""
    argv = ("systemctl", "show", "-p", "Id,LoadState,ActiveState,SubState", *UNITS)
    text, _ = output(machine, argv, limit)
    lines = []
    for block in text.split("\n\n"):
        state = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
        if {"Id", "LoadState", "ActiveState"} <= state.keys():
            words = state["Id"], state["LoadState"], state["ActiveState"], state.get("SubState") or "dead"
            lines.append("  ".join(words))
    return "\n".join(lines), None
