"""The other files of a project: an import of one of them is followed into it."""

import ast
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ongpu.facts.program import Context, Frame
from ongpu.facts.source_text import File
from ongpu.sources.python.scope import Names
from ongpu.sources.python.text import NotPython, parse

if TYPE_CHECKING:
    from ongpu.sources.python.walk import Walk

MAX_KEPT = 32  # parsed files that are kept at a time
MAX_FILES = 20_000
LARGE = 200  # in a project of more files imports are not followed: whole libraries import in circles, and each would be read a hundred times


class Project:
    """Which files there are, and their text on demand.

    paths: as their owner writes them, with slashes. read: the text of one; OSError or ValueError where there is none.
    """

    def __init__(self, paths: Iterable[str], read: Callable[[str], str]) -> None:
        self.paths = {path.replace("\\", "/"): path for path, _ in zip(paths, range(MAX_FILES), strict=False)}
        self.read = read
        self.most = 0 if len(self.paths) > LARGE else MAX_KEPT
        self._kept: OrderedDict[str, tuple[File, ast.Module] | None] = OrderedDict()

    @classmethod
    def of(cls, texts: dict[str, str]) -> "Project":
        """The project of these texts, by path."""
        return cls(texts, texts.__getitem__)

    def find(self, origin: str, module: str, level: int) -> str | None:
        """The path of a module that a file imports: relative to the file, else to any folder above it."""
        origin = origin.replace("\\", "/")
        folder = origin.rpartition("/")[0]
        parts = module.split(".") if module else []
        for _ in range(max(0, level - 1)):
            folder = folder.rpartition("/")[0]
        while True:
            base = "/".join([*([folder] if folder else []), *parts])
            for path in (f"{base}.py", f"{base}/__init__.py"):
                if path in self.paths and path != origin:
                    return path
            if level or not folder:
                return None
            folder = folder.rpartition("/")[0]

    def tree(self, path: str) -> tuple[File, ast.Module] | None:
        """The parsed file; None where it cannot be read."""
        if path in self._kept:
            self._kept.move_to_end(path)
            return self._kept[path]
        try:
            found: tuple[File, ast.Module] | None = parse(path, self.read(self.paths[path]))
        except (OSError, ValueError, NotPython, KeyError):
            found = None
        self._kept[path] = found
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return found

    def names(self, origin: str, module: str, level: int, walk: "Walk") -> Names | None:
        """What the imported file defines at its top level; its statements are followed once per walk."""
        path = self.find(origin, module, level)
        if path is None:
            return None
        known = walk.imported.get(path)
        if known is not None:
            return known
        found = self.tree(path) if len(walk.imported) < self.most else None
        if found is None:
            return None
        file, tree = found
        names = Names()
        walk.imported[path] = names
        walk.define(names, Context(Frame("<script>", "script", file)), tree)
        return names
