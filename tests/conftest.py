"""Makes the tests' own modules importable."""

import signal
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "fronts")]

# Whoever starts the tests in the background of a shell has them ignore SIGINT, and so would all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
