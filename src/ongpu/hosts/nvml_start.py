"""How the child process that asks NVML begins: whether NVML starts at all; the bindings, slow to load, only where it does.

It prints one JSON object a line, at once: what comes after may hang.
"""

import ctypes
import errno
import json
import os
import sys

NO_LIBRARY = 12  # nvml.h: NVML_ERROR_LIBRARY_NOT_FOUND, nvidia-ml-py's own code where the library does not load


def say(**what: object) -> None:
    """One line for the parent, now."""
    print(json.dumps(what), flush=True)  # noqa: T201


def control(root: str) -> None:
    """Whether the driver's control node opens: a container whose cgroup lost the device gets EPERM, whatever the mode says."""
    path = "/dev/nvidiactl"
    if root or sys.platform != "linux" or not os.path.exists(path):
        return
    say(asking=path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        say(open=path, error=errno.errorcode.get(error.errno or 0, str(error.errno)))
    else:
        say(open=path, error=None)


def refusal() -> tuple[str, int] | None:
    """(words, code) of NVML's refusal to start, asked as nvidia-ml-py does; None where it starts, or the bindings must ask."""
    if sys.platform != "linux":
        return None
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return "NVML Shared Library Not Found", NO_LIBRARY
    try:
        code = int(library.nvmlInitWithFlags(0))
        library.nvmlErrorString.restype = ctypes.c_char_p
        return (library.nvmlErrorString(code).decode("utf-8", "replace"), code) if code else None
    except AttributeError:  # an old library
        return None


def main(root: str) -> None:
    """Everything that NVML says, line by line. root: "/" or the folder of a recorded tree, for what is told of processes."""
    root = root.rstrip("/")
    control(root)
    say(asking="init")
    if refused := refusal():
        say(init=refused[0], code=refused[1])
        return
    from ongpu.hosts import nvml_child

    nvml_child.main(root)
