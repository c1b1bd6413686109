"""The dashboard as a child of the agent: a process of its own, started again when it ends, and ended with the agent."""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence

FIRST, LONGEST = 1.0, 60.0  # seconds before it is started again: longer each time
LAST = 5.0  # seconds that it has to end


class Child:
    """`ongpu watch web` with these arguments, for as long as this lives. It looks by itself whether we are still there."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.command = [sys.executable, "-m", "ongpu", "watch", "web", *arguments, "--parent", str(os.getpid())]
        self._ending = threading.Event()
        self._running: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, name="ongpu web", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        wait = FIRST
        while not self._ending.is_set():
            self._running = subprocess.Popen(self.command, stdin=subprocess.DEVNULL)
            if self._running.wait() == 2:  # bad usage: it said why, and would say it again
                return
            self._ending.wait(wait)
            wait = min(wait * 2, LONGEST)

    @property
    def pid(self) -> int | None:
        """Of the process; None before it runs."""
        return self._running.pid if self._running else None

    def close(self) -> None:
        """Ends it."""
        self._ending.set()
        if self._running and self._running.poll() is None:
            self._running.terminate()
            try:
                self._running.wait(LAST)
            except subprocess.TimeoutExpired:
                self._running.kill()
        self._thread.join(LAST)
