"""The user's own line: the innermost frame that is neither a library's nor ours."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import traceback
from types import FrameType, TracebackType
from typing import Any, Dict, List, Optional, Tuple

Place = Tuple[str, int, str]
OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_paths = sysconfig.get_paths()
LIBRARIES = tuple(
    os.path.abspath(path) + os.sep
    for path in {_paths.get("stdlib", ""), _paths.get("platstdlib", ""), _paths.get("purelib", ""), _paths.get("platlib", "")}
    if path
)
FOREIGN = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


class Where:
    """Knows which files are the user's. `script` counts as the user's wherever it lies."""

    def __init__(self, script: str) -> None:
        self.script = os.path.abspath(script) if script else ""
        self._mine: Dict[str, bool] = {}
        self._interned: Dict[Place, Place] = {}

    def users(self, filename: str) -> bool:
        """Whether a code object's file is the user's own."""
        known = self._mine.get(filename)
        if known is None:
            path = os.path.abspath(filename)
            known = path == self.script or not (
                filename.startswith("<") or path.startswith(OURS) or path.startswith(LIBRARIES) or any(f in path for f in FOREIGN)
            )
            if filename.startswith(("<ipython", "<stdin")):
                known = True
            self._mine[filename] = known
        return known

    def here(self, depth: int = 1) -> Optional[Place]:
        """(file, line, function) of the innermost user's frame, or None."""
        frame: Optional[FrameType] = sys._getframe(depth)
        mine = self._mine
        while frame is not None:
            name = frame.f_code.co_filename
            known = mine.get(name)
            if known or (known is None and self.users(name)):
                place = (name, frame.f_lineno, frame.f_code.co_name)
                return self._interned.setdefault(place, place)
            frame = frame.f_back
        return None

    def of_error(self, trace: Optional[TracebackType]) -> Optional[Place]:
        """The innermost user's line of a traceback."""
        found: Optional[Place] = None
        while trace is not None:
            name = trace.tb_frame.f_code.co_filename
            if self.users(name):
                found = (name, trace.tb_lineno, trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        return found

    def printed(self, error: BaseException) -> str:
        """The traceback as Python prints it, less the frames of the dry run itself and of runpy."""
        entry = traceback.TracebackException.from_exception(error, limit=None)
        seen: Any = entry
        for _ in range(20):
            if seen is None:
                break
            kept = [frame for frame in seen.stack if not self._hidden(frame.filename)]
            seen.stack = traceback.StackSummary.from_list(kept)
            seen = seen.__cause__ or seen.__context__
        return "".join(entry.format())[-20000:]

    def stack(self, depth: int = 1) -> str:
        """What Python would print above an error raised here."""
        frames = traceback.extract_stack(sys._getframe(depth))
        kept = [frame for frame in frames if not self._hidden(frame.filename)]
        return "Traceback (most recent call last):\n" + "".join(traceback.StackSummary.from_list(kept).format())[-20000:]

    @staticmethod
    def _hidden(filename: str) -> bool:
        return (
            os.path.abspath(filename).startswith(OURS)
            or filename.startswith("<frozen runpy")
            or os.path.basename(filename) == "runpy.py"
            or filename.endswith(("torch/utils/_python_dispatch.py", "torch/_ops.py", "torch/library.py"))
        )


def told(place: Optional[Place]) -> Optional[Dict[str, Any]]:
    """A place as the answer holds it."""
    if place is None:
        return None
    name, line, function = place
    path = os.path.abspath(name) if not name.startswith("<") else name
    return {"file": path, "line": line, "function": function, "text": linecache.getline(name, line).strip()[:200]}


def told_rows(counts: Dict[Any, Dict[str, Any]], most: int, by: str) -> List[Dict[str, Any]]:
    """Rows keyed by (place, ...) as a list with told places, largest `by` first, cut."""
    rows = sorted(counts.values(), key=lambda row: -float(row.get(by) or 0))
    return [dict(row, place=told(row["place"])) for row in rows[:most]]
