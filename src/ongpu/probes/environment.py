"""Run in the user's interpreter: says where it looks for packages. Python 3.8 syntax, standard library only."""

import json
import os
import sys


def main():  # type: () -> None
    """One JSON object on standard output."""
    print(
        json.dumps(
            {
                "version": sys.version.split()[0],
                "executable": sys.executable,
                "prefix": sys.prefix,
                "base_prefix": getattr(sys, "base_prefix", sys.prefix),
                "path": [os.path.abspath(p) for p in sys.path if p or p == ""],
                "platform": sys.platform,
                "machine": os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", ""),
                "conda": os.path.isdir(os.path.join(sys.prefix, "conda-meta")),
                "bits": 64 if sys.maxsize > 2**32 else 32,
                "cwd": os.getcwd(),
            }
        )
    )


if __name__ == "__main__":
    main()
