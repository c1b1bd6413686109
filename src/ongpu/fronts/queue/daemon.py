"""`ongpu queue daemon`: the queue's daemon in the foreground, for systemd or for looking on; or its end. What runs goes on without it."""

import argparse
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from ongpu.fronts.answer import add_language, complain, say
from ongpu.fronts.queued import add_engine, guarded, local_only

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE, EVERY = 10.0, 0.05  # seconds for its end or its start; between two looks
STARTING = 0.7  # seconds in which a daemon that was just started shows


def add(parser: argparse.ArgumentParser) -> None:
    """The action's arguments."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--stop", action="store_true", help=say("end it; what runs goes on, what waits is kept", "停止守护进程；运行中的继续，等待的保留"))
    how.add_argument("--start", action="store_true", help=say("start it in the background (ongpu submit does so by itself)", "在后台启动（ongpu submit 会自动启动）"))
    add_engine(parser)
    add_language(parser)
    parser.set_defaults(run=guarded(run))


def run(options: argparse.Namespace) -> int:
    """Become it, start it or end it; 0, or 1 where that cannot be."""
    local_only(options, "daemon")
    from ongpu.queue.engines.local import alive

    folder = alive.folder()
    if options.stop:
        return _stop()
    if alive.lives(folder):
        print(say(f"the daemon runs already: pid {alive.pid(folder) or '?'}", f"守护进程已在运行：pid {alive.pid(folder) or '?'}"))
        return 0 if options.start else 1
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if options.start:
            alive.start(folder)
    except OSError as error:
        return complain(f"{folder}: {error.strerror}", f"{folder}：{error.strerror}")
    if options.start:
        if alive.begun(folder, PATIENCE):
            number = _pid(folder)
            print(say(f"started: pid {number or '?'}", f"已启动：pid {number or '?'}"))
            return 0
        why, log = alive.fault(folder, time.time()), folder / alive.LOG
        complain(f"the daemon did not start: {why or 'nothing was said'} ({log})", f"守护进程没有启动：{why or '没有说明'}（{log}）")
        return 1
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", "ongpu.queue.engines.local.daemon", str(folder)])  # noqa: S606


def _pid(folder: "Path") -> int | None:
    """Of the daemon that lives: it writes it down when it has the lock, a moment later."""
    from ongpu.queue.engines.local import alive

    end = time.monotonic() + STARTING
    while (number := alive.pid(folder)) is None and alive.lives(folder) and time.monotonic() < end:
        time.sleep(EVERY)
    return number


def _stop() -> int:
    from ongpu.queue.engines.local import alive

    folder = alive.folder()
    alive.begun(folder, STARTING)  # a command just before may have started one
    number = _pid(folder)
    if number is None:
        print(say("no daemon runs", "没有守护进程在运行"))
        return 0
    os.kill(number, signal.SIGTERM)
    end = time.monotonic() + PATIENCE
    while alive.lives(folder):
        if time.monotonic() > end:
            complain(f"pid {number} does not end", f"pid {number} 没有退出")
            return 1
        time.sleep(EVERY)
    print(say("ended; what runs goes on", "已停止；运行中的作业继续"))
    return 0
