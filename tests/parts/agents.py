"""`ongpu watch` as a user starts it, on the fake NVML: a scenario that a test rewrites while the agent runs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from ongpu.store import Store, StoreError


class Running:
    """One agent in a folder: scenario.txt, watch.toml, watch.db; `library`: the folder of the fake NVML."""

    def __init__(self, folder: Path, library: Path, config: str = "", gpus: int = 8, *arguments: str) -> None:
        self.folder, self.library, self.gpus, self.arguments = folder, library, gpus, arguments
        self.store = folder / "watch.db"
        (folder / "watch.toml").write_text(f'[metrics]\nlisten = ""\n{config}')
        self.scenario()
        self.process: subprocess.Popen[str] | None = None

    def scenario(self, *more: str) -> None:
        """What the fake NVML says from now on."""
        lines = ["reload = 1", f"gpus = {self.gpus}", "driver = 535.183.01", "cuda = 12020", "gpu.*.mem_used_mib = 4", "gpu.*.util = 0"]
        new = self.folder / "scenario.new"
        new.write_text("\n".join([*lines, *more]) + "\n")
        new.rename(self.folder / "scenario.txt")

    def start(self, up: bool = True) -> Self:
        """Begins; returns when the first sample (up False: the first word) is in the store."""
        environ = {**os.environ, "LD_LIBRARY_PATH": str(self.library), "FAKE_NVML": str(self.folder / "scenario.txt"), "LC_ALL": "C.UTF-8"}
        files = ["--config", str(self.folder / "watch.toml"), "--store", str(self.store)]
        words = [sys.executable, "-m", "ongpu", "watch", "--no-kernel-log", *files, *self.arguments]
        begun = time.time()
        with open(self.folder / "out.txt", "a") as out, open(self.folder / "err.txt", "a") as err:
            self.process = subprocess.Popen(words, stdout=out, stderr=err, env=environ, text=True)
        self.until(lambda: self.now().get("written", 0.0) > begun and (self.now()["up"] or not up), 30)
        return self

    def now(self) -> dict[str, Any]:
        """What the agent wrote last; {} where nothing yet."""
        try:
            with Store(self.store, readonly=True) as store:
                text = store.now()
        except StoreError:
            return {}
        found: dict[str, Any] = json.loads(text) if text else {}
        return found

    def send(self, number: int) -> None:
        """Sends a signal."""
        assert self.process
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ends it; its exit code."""
        assert self.process
        self.process.send_signal(number)
        return self.process.wait(15)

    def until(self, what: Callable[[], bool], seconds: float = 20.0) -> float:
        """Waits for it; returns the seconds that it took."""
        start = time.monotonic()
        while not what():
            assert time.monotonic() - start < seconds, (self.out(), self.err())
            assert self.process, "not started"
            assert self.process.poll() is None, self.err()
            time.sleep(0.02)
        return time.monotonic() - start

    def out(self) -> str:
        """What it printed."""
        return (self.folder / "out.txt").read_text()

    def err(self) -> str:
        """What it complained about."""
        return (self.folder / "err.txt").read_text()

    def incidents(self, open_only: bool = False) -> list[dict[str, Any]]:
        """What the store holds."""
        with Store(self.store, readonly=True) as store:
            return store.incidents(open_only=open_only)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(15)
