"""Text from a user: files, standard input, a term. Decoded, cleaned of colours, split where a new command was typed."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ongpu.model import Evidence

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_PROGRAMS = ["nvidia-smi", "nvcc", "nvidia-ctk", "nvidia-container-cli", "docker", "podman", "kubectl", "helm", "pip", "pip3", "python", "python3", "conda", "mamba", "uv", "apt", "apt-get", "dpkg", "rpm", "dnf", "yum", "pacman", "zypper", "ls", "cat", "lspci", "lsmod", "modinfo", "modprobe", "dmesg", "journalctl", "dkms", "mokutil", "uname", "systemctl", "service", "ldd", "ldconfig", "echo", "env", "export", "sudo", "grep", "find", "srun", "sbatch", "salloc", "squeue", "scontrol", "sinfo", "nvtop", "nvitop", "gpustat", "fuser", "lsof", "kill", "df", "free", "top", "ps", "head", "tail", "make", "cmake", "git", "cd", "wsl", "bash", "sh", "./", "torchrun", "accelerate", "deepspeed", "ollama", "vllm", "jupyter", "singularity", "apptainer", "enroot", "readelf", "nm", "strings", "which", "whereis", "poetry", "time", "watch", "id"]
_PROGRAM = "|".join(re.escape(p) for p in _PROGRAMS)
# "$ cmd", "% cmd", "> cmd", "user@host:~/x$ cmd", "[user@host dir]# cmd", "(env) $ cmd", "PS C:\> cmd", "C:\x> cmd", "# nvidia-smi"
_PROMPT = re.compile(
    r"^\s{0,4}(?:\([\w.\-]{1,40}\)\s?)?"
    r"(?:(?:\[?[\w.\-]{1,40}@[\w.\-]{1,60}[^\n$#%>]{0,120})[$#%>]\s?|[\w.\-]{0,30}\$\s+|%\s+"
    r"|PS [A-Za-z]:[^\n>]{0,120}>\s?|[A-Za-z]:\\[^\n>]{0,120}>\s?"
    rf"|[#>]\s+(?=(?:{_PROGRAM})(?:\s|$)))"
    r"(?P<command>[^\s|+].{0,2000})$",
    re.MULTILINE,
)


def clean(text: str) -> str:
    """Without colours, carriage returns and NUL bytes; progress bars that overwrote their line become lines."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def split(text: str, origin: str) -> Iterator[Evidence]:
    """One Evidence per command that was typed; what stands before the first is one of its own."""
    start, command, line = 0, None, 1
    for match in _PROMPT.finditer(text):
        if text[start : match.start()].strip() or command:
            yield Evidence("pasted", text[start : match.start()].rstrip("\n"), origin, command, first_line=line)
        line += text.count("\n", start, match.start())
        start, command = match.start(), match["command"].strip()
    yield Evidence("pasted", text[start:].rstrip("\n"), origin, command, first_line=line)


def read_text(text: str, origin: str) -> list[Evidence]:
    """The evidence in one pasted text."""
    return list(split(clean(text), origin))


def read_file(path: Path) -> list[Evidence]:
    """The evidence in one file."""
    return read_text(path.read_bytes().decode("utf-8", "replace"), path.name)


def read_stdin() -> list[Evidence]:
    """The evidence on standard input; none where it is closed."""
    if sys.stdin is None or sys.stdin.closed:
        return []
    return read_text(sys.stdin.buffer.read().decode("utf-8", "replace"), "stdin")
