"""torch.save and torch.load: what is saved goes to the scratch folder, never over a good checkpoint; loading to "cuda" works."""

from __future__ import annotations

import importlib.util
import io
import os
import pickle
import tempfile
from typing import Any, Dict

import torch

from . import methods
from .mode import Mode
from .pretend import CUDA, card_of


def install(mode: Mode) -> None:
    """Replace both."""
    world = mode.world
    old_save, old_load = torch.save, torch.load
    redirected: Dict[str, str] = {}

    def scratch() -> str:
        folder = world.spec["scratch"] or tempfile.gettempdir()
        return str(tempfile.mkstemp(prefix="ongpu-dryrun-", suffix=".pt", dir=folder)[1])

    def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        world.called("save")
        if not isinstance(f, (str, os.PathLike)):
            if isinstance(f, io.BytesIO) and "_use_new_zipfile_serialization" not in kwargs:
                f.write(pickle.dumps(obj, protocol=4))
                return
            old_save(obj if "_use_new_zipfile_serialization" in kwargs else _real(obj), f, *args, **kwargs)
            return
        path = os.path.abspath(os.fspath(f))
        place = world.where.here()
        target = scratch()
        with open(target, "wb") as stream:
            pickle.dump(obj, stream, protocol=4)
        redirected[path] = target
        world.row("files", (path, place), path=path, what="save", redirected=target, refused=False, place=place)
        world.note("save-redirected", "torch.save wrote to the scratch folder, not to %s" % path, place)

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        world.called("load")
        methods.target[0] = _to(map_location)
        try:
            if isinstance(f, (str, os.PathLike)):
                path = os.path.abspath(os.fspath(f))
                if path in redirected:
                    with open(redirected[path], "rb") as stream:
                        return pickle.load(stream)  # noqa: S301 - our own file, written above in this process
            elif isinstance(f, io.BytesIO) and bytes(f.getbuffer()[:2]) == b"\x80\x04":
                return pickle.loads(f.read())  # noqa: S301 - written by save() above
            return _loaded(old_load, f, map_location, args, kwargs, world)
        finally:
            methods.target[0] = None

    torch.save, torch.load = save, load
    _safetensors(mode)


def _safetensors(mode: Mode) -> None:
    """safetensors writes by itself, where no hook of Python sees it: its files are not written at all, only remembered."""
    if importlib.util.find_spec("safetensors") is None:
        return
    try:
        module: Any = importlib.import_module("safetensors.torch")
    except Exception:  # a broken package is the script's business
        return
    world = mode.world
    kept: Dict[str, Any] = {}
    old_load = module.load_file

    def save_file(tensors: Any, filename: Any, metadata: Any = None) -> None:
        world.called("save")
        path, place = os.path.abspath(os.fspath(filename)), world.where.here()
        kept[path] = {name: (tuple(t.shape), t.dtype) for name, t in tensors.items()}
        world.row("files", (path, place), path=path, what="save", redirected=None, refused=True, place=place)
        world.note("save-redirected", "safetensors did not write %s" % path, place)

    def load_file(filename: Any, device: Any = "cpu") -> Any:
        found = kept.get(os.path.abspath(os.fspath(filename)))
        if found is not None:
            return {name: torch.zeros(shape, dtype=dtype, device=device) for name, (shape, dtype) in found.items()}
        card = card_of(device, world.current)
        if card is None:
            return old_load(filename, device)
        return {name: value.to(CUDA[card]) for name, value in old_load(filename, "cpu").items()}

    module.save_file, module.load_file = save_file, load_file


def _to(map_location: Any) -> Any:
    if map_location is None:
        return None
    if callable(map_location):
        return None
    if isinstance(map_location, dict):
        return lambda card: torch.device(map_location.get("cuda:%d" % card, "cuda:%d" % card))
    return lambda card: torch.device(map_location)


def _loaded(old_load: Any, f: Any, map_location: Any, args: Any, kwargs: Any, world: Any) -> Any:
    """A real file: its storages are read on the CPU, and moved to the card that the file or map_location names."""
    if callable(map_location):
        return old_load(f, map_location, *args, **kwargs)
    wanted: Dict[int, Any] = {}

    def place(storage: Any, location: str) -> Any:
        goal = location
        if isinstance(map_location, dict):
            goal = map_location.get(location, location)
        elif map_location is not None:
            goal = str(map_location)
        card = card_of(torch.device(goal), world.current) if goal.startswith("cuda") else None
        if card is not None:
            wanted[storage._cdata] = card
        return storage

    return _moved(old_load(f, place, *args, **kwargs), wanted, {})


def _moved(value: Any, wanted: Dict[int, Any], done: Dict[int, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        key = value.untyped_storage()._cdata
        if key not in wanted:
            return value
        if id(value) not in done:
            moved = value.detach().to(CUDA[wanted[key]])
            done[id(value)] = torch.nn.Parameter(moved, value.requires_grad) if isinstance(value, torch.nn.Parameter) else moved
        return done[id(value)]
    if isinstance(value, dict):
        for key in list(value):
            value[key] = _moved(value[key], wanted, done)
        return value
    if isinstance(value, list):
        value[:] = [_moved(v, wanted, done) for v in value]
        return value
    if type(value) is tuple:
        return tuple(_moved(v, wanted, done) for v in value)
    return value


def _real(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_cuda:
        return torch.zeros(tuple(value.shape), dtype=value.dtype)
    if isinstance(value, dict):
        return {k: _real(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_real(v) for v in value])
    return value
