"""torch.compile is skipped, and its package torch._dynamo, which many eager functions import only to say "not here", is kept out
until someone asks for more than that: importing it costs seconds."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import torch

from .mode import Mode

NAME = "torch._dynamo"


class Quiet(types.ModuleType):
    """Stands for torch._dynamo: the few calls that eager code makes. Any other name loads the real one."""

    def __init__(self) -> None:
        super().__init__(NAME)

    @staticmethod
    def disable(fn: Any = None, recursive: bool = True, **kwargs: Any) -> Any:
        """Nothing is compiled, so nothing needs to be kept out."""
        return (lambda function: function) if fn is None else fn

    @staticmethod
    def graph_break(*args: Any, **kwargs: Any) -> None:
        """No graph."""

    @staticmethod
    def is_compiling() -> bool:
        """Never."""
        return False

    def __getattr__(self, name: str) -> Any:
        if name in ("__spec__", "__file__", "__loader__", "__wrapped__"):
            raise AttributeError(name)
        if sys.modules.get(NAME) is self:
            del sys.modules[NAME]
            torch.__dict__.pop("_dynamo", None)
        return getattr(importlib.import_module(NAME), name)


def install(mode: Mode) -> None:
    """Skip compilation."""
    world = mode.world
    if NAME not in sys.modules:
        quiet = Quiet()
        sys.modules[NAME] = quiet
        torch._dynamo = quiet

    def compile(model: Any = None, **kwargs: Any) -> Any:
        world.called("compile")
        world.note("compile-skipped", "torch.compile was skipped: the memory and time of the eager model are shown", world.where.here())
        if model is None:
            return lambda function: function
        return model

    torch.compile = compile
    torch.nn.Module.compile = lambda self, *args, **kwargs: compile(self) and None
