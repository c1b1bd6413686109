"""Makes the tests' own modules importable, and spreads slow tests."""

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "fronts")]

# Whoever starts the tests in the background of a shell, or by nohup, has them ignore these, and so would all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
for each in ("SIGHUP", "SIGQUIT"):  # Windows has none
    if hasattr(signal, each):
        signal.signal(getattr(signal, each), signal.SIG_DFL)

# Their tests share what is long in coming (a cluster, a browser, all cases explained), or follow each other: one worker has them all.
TOGETHER = ("live/test_prometheus.py", "live/test_ray.py", "live/test_slurm_jobs.py", "live/test_web.py", "report/test_told.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "LoadScopeScheduling | None":
    """With --dist loadgroup: those files first, then each test alone to the worker that is free. (`load` sends a hundred at once.)

    The marker of that name is no use: pytest-xdist 3.8 puts it where pytest 9.2 does not read it.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if file.endswith(TOGETHER) else nodeid

    return Scheduling(config, log)
