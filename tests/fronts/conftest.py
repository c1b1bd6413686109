"""The commands of the queue, in this process, on an engine in memory."""

import os
import sys
from collections.abc import Callable

import pytest
from pretend import Pretend

from ongpu.hosts.redact import is_secret

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """The engine that every command gets."""
    made = Pretend()
    monkeypatch.setattr("ongpu.queue.engines.engine", lambda name, config: made)
    monkeypatch.setenv("ONGPU_QUEUE_CONFIG", "/dev/null")
    monkeypatch.setenv("COLUMNS", "80")
    for name in [name for name, value in os.environ.items() if is_secret(name, value)]:  # of the machine of the tests
        monkeypatch.delenv(name)
    return made


@pytest.fixture
def ask(pretend: Pretend, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Ask:
    """Runs a command line; its exit code, what it printed, and what it said on standard error. English where nobody says."""
    from ongpu.fronts import cli

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setenv("LC_ALL", "C.UTF-8")
        monkeypatch.setattr(sys, "argv", ["ongpu", *words])
        try:
            code = cli.run(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        told = capfd.readouterr()
        return code, told.out, told.err

    return run
