"""Puts the parts of a dry run together, in the order that they need."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import Any, Dict, List, Optional

import torch

from . import accounts, copies, cuda_api, dependent, grad_scaling, methods
from .autocast import Autocast
from .batch_size import BatchFinder
from .composites import Composites
from .loaders import Loaders
from .mode import Mode
from .overlay import Overlay, spare_old
from .reached import Reached
from .sandbox import Sandbox
from .savings import Savings
from .shapes import Shapes
from .state import World
from .watch import Watch

HANDLES_OOM = ("OutOfMemoryError", "out of memory", "find_executable_batch_size", "is_oom_error", "auto_find_batch_size")


class Parts:
    """The dispatch mode and all that answers around it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.mode = Mode(world)
        self.watch = Watch(self.mode)
        self.loaders = Loaders(self.mode)
        self.autocast = Autocast(world)
        self.composites = Composites(world)
        self.shapes = Shapes()
        self.frozen: Optional[Dict[str, Any]] = None
        self.savings = Savings(self.mode, self.watch, self.loaders)
        self.finder = BatchFinder(self.mode, self.loaders, self.freeze) if world.spec["mode"] == "find-batch-size" else None
        self.kept: List[Any] = []
        self.reached = Reached()

    def install(self) -> None:
        """Change this process's torch into one with that card. There is no way back: the process ends with the run."""
        copies.register(self.mode)
        dependent.register(self.mode)
        self.autocast.install()
        self.composites.install()
        self.shapes.install()
        cuda_api.install(self.mode)
        methods.install(self.mode)
        from . import checks, framework

        checks.register(self.mode)
        framework.install(self.mode)
        self.loaders.install()
        self.watch.install()
        grad_scaling.install(self.mode, self.watch)
        self._threads()
        if self.finder is not None:
            self.finder.install()
        elif self.world.spec["savings"]:
            self.savings.install()
            self.watch.finish = self._tried

    def spare(self) -> None:
        """Delete nothing that was there before."""
        world = self.world

        def told(what: str, path: str, redirected: Optional[str]) -> None:
            world.row("files", (what, path), path=path, what=what, redirected=None, refused=True, place=world.where.here())
            world.note("deletion-skipped", path, world.where.here())

        spare_old(world.started, told)

    def sandbox(self) -> None:
        """Refuse writes outside the scratch folder, and the network."""
        world = self.world
        scratch = world.spec["scratch"] or tempfile.gettempdir()

        tempfile.tempdir = os.environ["TMPDIR"] = scratch  # sockets and folders of worker processes lie there too

        def told(what: str, path: str, redirected: Optional[str] = None) -> None:
            place = world.where.here()
            world.row("files", (what, path), path=path, what=what, redirected=redirected, refused=redirected is None, place=place)
            if redirected is None:
                world.note("sandbox-refused", "%s: %s" % (what, path), place)

        sandbox = Sandbox([scratch, os.path.abspath(world.spec["answer"])], told)
        Overlay(sandbox, scratch, told).install()
        sandbox.install()

    def _tried(self) -> bool:
        self.freeze()
        return self.savings.begin()

    def freeze(self) -> None:
        """The answer as it is before anything is tried out: what comes later is not the script's own."""
        if self.frozen is None:
            self.world.stopped_by = "steps"
            self.frozen = accounts.answer(self.mode, self.watch, self.loaders, "stopped", None)
            self.world.stopped_by = None

    def prepare(self, name: str, module: bool) -> None:
        """What hangs on the script itself."""
        world = self.world
        if world.spec["oom"] == "auto":
            text = ""
            if not module and os.path.isfile(name):
                with open(name, encoding="utf-8", errors="replace") as stream:
                    text = stream.read(2000000)
            world.go_on_after_oom = not any(word in text for word in HANDLES_OOM)

    def _threads(self) -> None:
        """A thread of the script computes under the same mode."""
        old, mode = threading.Thread.run, self.mode

        def run(self: Any) -> None:
            with mode:
                old(self)

        threading.Thread.run = run  # type: ignore[method-assign]


__all__ = ["Parts", "torch"]
