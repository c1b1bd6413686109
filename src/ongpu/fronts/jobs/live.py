"""The list of jobs, drawn again each second on a terminal's second screen, until Ctrl-C."""

import os
import sys
import time
from collections.abc import Callable, Sequence

EVERY, ELSEWHERE = 1.0, 5.0  # seconds: of this machine's own queue; of one that is asked over a network
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, END_OF_LINE, BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def possible() -> bool:
    """Whether there is a terminal that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def run(lines: Callable[[int], Sequence[str]], every: float = EVERY) -> int:
    """Draw what `lines` gives for so many rows, each so many seconds, until somebody says enough; 0."""
    out = sys.stdout
    out.write(ENTER)
    try:
        while True:
            begin = time.monotonic()
            rows = _rows()
            shown = list(lines(rows))
            if len(shown) > rows:
                shown = [*shown[: rows - 1], "..."]
            out.write(HOME + "\n".join(line + END_OF_LINE for line in shown) + BELOW)  # one write: nothing flickers
            out.flush()
            time.sleep(max(0.1, every - (time.monotonic() - begin)))
    except KeyboardInterrupt:
        return 0
    finally:
        out.write(LEAVE)
        out.flush()


def _rows() -> int:
    try:
        return max(5, os.get_terminal_size(sys.stdout.fileno()).lines)
    except OSError:
        return 24
