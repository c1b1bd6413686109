"""`pueue status --json`, of pueue 3 and 4 (https://github.com/Nukesor/pueue, pueue_lib/src/task.rs)."""

import re
from typing import Any

from ongpu.queue import asked
from ongpu.queue.imports.found import Found, Wish, checked, one_line, split
from ongpu.queue.job import Spec
from ongpu.queue.words import called


def job(item: tuple[str, Any], wish: Wish) -> tuple[str, Found | str]:
    """A task of its table, by its id; else why it is left (found.LEFT)."""
    name, task = item
    name = one_line(str(name), 40)
    if not isinstance(task, dict):
        return name, "not-read"
    told = task.get("status")
    status = told if isinstance(told, str) else next(iter(told), "") if isinstance(told, dict) else ""
    if status == "Done":
        return name, "ended"
    if status in ("Running", "Paused") and not wish.running:
        return name, "runs"
    begin = _begin(told)
    if status == "Locked" or (status == "Stashed" and begin is None):  # it waits for `pueue enqueue`, or is being edited
        return name, "held"
    command, folder, envs, label, group = (task.get(key) for key in ("original_command", "path", "envs", "label", "group"))
    if not isinstance(command, str) or not command.strip():
        return name, "not-read"
    environ = {str(key): str(value) for key, value in envs.items()} if isinstance(envs, dict) else {}
    priority = task.get("priority")
    told_needs = task.get("dependencies")
    needs = [("ok", str(one)) for one in told_needs if isinstance(one, int)] if isinstance(told_needs, list) else []
    spec = Spec(
        command=("sh", "-c", command),  # as pueue itself runs it
        name=one_line(label, 60) if isinstance(label, str) and label else one_line(called(split(command)), 60),
        project=one_line(group, 60) if isinstance(group, str) and group != "default" else "",
        folder=folder if isinstance(folder, str) else "", environ=environ, gpus=wish.gpus, begin=begin,
        priority=max(-asked.MOST_PRIORITY, min(asked.MOST_PRIORITY, priority)) if isinstance(priority, int) else 0,
    )  # fmt: skip
    return checked(name, spec, needs)


def _begin(status: Any) -> float | None:
    """When a stashed task is to be enqueued."""
    from datetime import datetime

    stashed = status.get("Stashed") if isinstance(status, dict) else None
    at = stashed.get("enqueue_at") if isinstance(stashed, dict) else None
    if not isinstance(at, str):
        return None
    try:
        return datetime.fromisoformat(re.sub(r"(\.\d{6})\d{1,9}", r"\1", at[:60])).timestamp()  # nanoseconds
    except (ValueError, OverflowError, OSError):
        return None
