"""`python -m ongpu`, and the console script."""

import gc
import sys


def main() -> int:
    """Run the command line."""
    if sys.argv[1:] == ["--version"]:  # answered before anything is loaded
        from ongpu import __version__

        print(f"ongpu {__version__}")  # noqa: T201
        return 0
    gc.set_threshold(50_000)  # a short process: collecting while modules load would only take time
    from ongpu.fronts.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
