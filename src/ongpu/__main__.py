"""`python -m ongpu`, and the console script."""

import contextlib
import gc
import os
import sys


def main() -> int:
    """Run the command line; ends the process."""
    if sys.argv[1:] == ["--version"]:  # answered before anything is loaded
        from ongpu import __version__

        print(f"ongpu {__version__}")  # noqa: T201
        return 0
    gc.set_threshold(50_000)  # a short process: collecting while modules load would only take time
    sys.setswitchinterval(0.001)  # a thread that is to start a program must not wait for one that reads
    try:
        from ongpu.fronts.cli import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules load: later the commands see to it themselves
        code = 130
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, full, or none
            stream.flush()
    os._exit(code)  # nothing is left to do; to take all modules and objects apart would take a tenth of the doctor's time


if __name__ == "__main__":
    sys.exit(main())
