"""With the sandbox on, a script that writes goes on all the same: its new files and folders lie in the scratch folder, its
deletions do nothing. What is not caught here is refused by the sandbox itself."""

from __future__ import annotations

import builtins
import io
import os
import shutil
from typing import Any, Callable, Optional

from .sandbox import Sandbox


class Overlay:
    """Maps paths outside the allowed folders to a tree inside the scratch folder."""

    def __init__(self, sandbox: Sandbox, scratch: str, tell: Callable[[str, str, Optional[str]], None]) -> None:
        self.sandbox, self.tell = sandbox, tell
        self.root = os.path.join(os.path.realpath(scratch), "overlay")

    def inside(self, path: Any) -> Optional[str]:
        """Where a path outside lies in the scratch folder, None for paths that may be written."""
        found = self.sandbox._outside(path)
        if found is None:
            return None
        return os.path.join(self.root, os.path.realpath(found).lstrip(os.sep).replace(":", ""))

    def install(self) -> None:
        """Replace the calls that scripts write with."""
        self._files()
        self._folders()

    def _files(self) -> None:
        old = builtins.open
        overlay = self

        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if isinstance(file, int):
                return old(file, mode, *args, **kwargs)
            mapped = overlay.inside(file)
            if mapped is None:
                return old(file, mode, *args, **kwargs)
            if any(c in mode for c in "wax+"):
                os.makedirs(os.path.dirname(mapped), exist_ok=True)
                if not os.path.exists(mapped) and ("a" in mode or "r" in mode) and old_exists(file):
                    shutil.copyfile(file, mapped)
                overlay.tell("write", os.fsdecode(file), mapped)
                return old(mapped, mode, *args, **kwargs)
            return old(mapped if old_exists(mapped) else file, mode, *args, **kwargs)

        old_exists = os.path.exists
        builtins.open = opened
        io.open = opened

    def _folders(self) -> None:
        overlay, real_makedirs = self, os.makedirs
        for owner, name in ((os, "mkdir"), (os, "makedirs")):
            old = getattr(owner, name)

            def made(path: Any, *args: Any, _old: Any = old, _name: str = name, **kwargs: Any) -> None:
                mapped = overlay.inside(path)
                if mapped is None:
                    _old(path, *args, **kwargs)
                    return
                if _name == "mkdir" and os.path.isdir(path):
                    raise FileExistsError(17, "File exists", path)
                if not os.path.isdir(path) or not kwargs.get("exist_ok"):
                    overlay.tell("mkdir", os.fsdecode(path), mapped)
                real_makedirs(mapped, exist_ok=True)

            setattr(owner, name, made)
        for owner, name in ((os, "remove"), (os, "unlink"), (os, "rmdir"), (shutil, "rmtree")):
            old = getattr(owner, name)

            def gone(path: Any, *args: Any, _old: Any = old, _name: str = name, **kwargs: Any) -> None:
                mapped = overlay.inside(path)
                if mapped is None:
                    _old(path, *args, **kwargs)
                elif os.path.lexists(mapped):
                    _old(mapped, *args, **kwargs)
                else:
                    overlay.tell("delete", os.fsdecode(path), None)

            setattr(owner, name, gone)
        for name in ("rename", "replace"):
            old = getattr(os, name)

            def moved(source: Any, target: Any, *args: Any, _old: Any = old, **kwargs: Any) -> None:
                there = overlay.inside(target)
                here = overlay.inside(source)
                if there is not None:
                    overlay.tell("write", os.fsdecode(target), there)
                    real_makedirs(os.path.dirname(there), exist_ok=True)
                if here is not None and not os.path.lexists(here):
                    raise PermissionError(13, "ongpu dry run, sandbox: os.%s refused" % "rename", os.fsdecode(source))
                _old(here or source, there or target, *args, **kwargs)

            setattr(os, name, moved)
        for name in ("exists", "isdir", "isfile"):
            look = getattr(os.path, name)

            def seen(path: Any, _look: Any = look) -> bool:
                if _look(path):
                    return True
                mapped = overlay.inside(path) if isinstance(path, (str, bytes, os.PathLike)) else None
                return mapped is not None and bool(_look(mapped))

            setattr(os.path, name, seen)


def spare_old(since: float, tell: Callable[[str, str, Optional[str]], None]) -> None:
    """Without the sandbox: what was there before the run is not deleted (a script that keeps only its newest checkpoints would
    delete good ones in favour of those that a dry run never writes)."""
    for owner, name in ((os, "remove"), (os, "unlink"), (os, "rmdir"), (shutil, "rmtree")):
        old = getattr(owner, name)

        def gone(path: Any, *args: Any, _old: Any = old, **kwargs: Any) -> None:
            try:
                there = not kwargs.get("dir_fd") and os.lstat(path).st_ctime < since
            except (OSError, TypeError, ValueError):
                there = False
            if there:
                tell("delete", os.fsdecode(path), None)
            else:
                _old(path, *args, **kwargs)

        if name == "rmtree":
            for part in ("avoids_symlink_attacks",):
                if hasattr(old, part):
                    setattr(gone, part, getattr(old, part))
        setattr(owner, name, gone)
