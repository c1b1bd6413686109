"""Every operation passes here: real on the CPU, shapes only on the pretend card, with its memory, copies, waits and errors."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from . import allocator, known, pretend, shadows, views, words, workspaces
from .ledger import Record
from .operation import Operation, remembered
from .pretend import PLAIN_META, C, Kernel, c_device, c_is_meta, card_of
from .state import Unfollowed, World

OutOfMemoryError = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer if hasattr(torch.nn, "Buffer") else torch.Tensor, pretend.Carrier)


class Mode(TorchDispatchMode):  # type: ignore[misc]
    """The dispatch mode. `special`: {overload: handler(mode, operation, args, kwargs, card)}, filled by the parts that know them."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch wraps __torch_dispatch__ and imports its compiler at the first operation

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.special: Dict[Any, Any] = {}
        self._known: Dict[Any, Operation] = {}
        self._results: Dict[Any, Any] = {}
        self._ticks = 0

    # -- the gate ---------------------------------------------------------------------------------------------------------
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for kind in types:
            if kind not in PLAIN and kind.__torch_dispatch__ is not C._disabled_torch_dispatch_impl:
                return NotImplemented  # a subclass with its own rules: it comes back with the tensors inside it
        kwargs = kwargs or {}
        operation = self._known.get(func)
        if operation is None:
            operation = self._known[func] = Operation(func)
        if operation.collective:
            from .distributed import collective

            return collective(self, operation, args, kwargs)
        card: Optional[int] = None
        other: Optional[int] = None
        cpu: Optional[Tensor] = None
        for value in args:
            if isinstance(value, Tensor):
                if c_is_meta(value):
                    index = c_device(value).index
                    if card is None:
                        card = index
                    elif index is not None and index != card:
                        other = index
                elif cpu is None and value.dim():
                    cpu = value
            elif type(value) in (list, tuple) and value and isinstance(value[0], (Tensor, type(None))):
                for item in value:
                    if isinstance(item, Tensor):
                        if c_is_meta(item):
                            index = c_device(item).index
                            if card is None:
                                card = index
                            elif index is not None and index != card:
                                other = index
                        elif cpu is None and item.dim():
                            cpu = item
        target = None
        if kwargs:
            target = card_of(kwargs.get("device"), self.world.current)
            for value in kwargs.values():
                if isinstance(value, Tensor):
                    if c_is_meta(value):
                        card = c_device(value).index if card is None else card
                    elif cpu is None and value.dim():
                        cpu = value
        self._ticks += 1
        if not self._ticks & 255 and self.world.late():
            self.world.stop("seconds")
        if card is None and target is None:
            return self.on_cpu(operation, args, kwargs)
        place = card if card is not None else target
        self._usable(target if target is not None else place)
        self.world.ops["cuda"] += 1
        handler = self.special.get(func)
        if handler is not None:
            done = handler(self, operation, args, kwargs, place)
            if done is not NotImplemented:
                return done
        if other is not None or (cpu is not None and card is not None and not operation.takes_cpu):
            raise words.mixed(operation, args, kwargs, card)
        goal = target if target is not None else card
        return self.on_card(operation, args, kwargs, world_card(goal))

    def _usable(self, card: Optional[int]) -> None:
        world = self.world
        if os.getpid() != world.pid:
            raise RuntimeError(words.FORKED)
        count = world.visible()
        if card is not None and card >= count:
            raise RuntimeError(words.ORDINAL if count else words.NO_CARDS)

    # -- the CPU ----------------------------------------------------------------------------------------------------------
    def on_cpu(self, operation: Operation, args: Any, kwargs: Dict[str, Any]) -> Any:
        """A real operation; matrix work is counted, pinned memory is a mark."""
        world, func = self.world, operation.func
        world.ops["cpu"] += 1
        pinned = kwargs.get("pin_memory")
        if pinned:
            kwargs = dict(kwargs, pin_memory=False)
        if operation.short == "_pin_memory":
            out = args[0].clone()
            out._ongpu_pinned = True
            return out
        if operation.short == "is_pinned":
            return bool(getattr(args[0], "_ongpu_pinned", False))
        if operation.short == "_local_scalar_dense" and not isinstance(args[0], Tensor):
            return args[0]  # a wrapped number reaches Python as a number
        out = func(*args, **kwargs)
        if pinned and isinstance(out, Tensor):
            out._ongpu_pinned = True
        if operation.flop is not None:
            self._count(operation, args, kwargs, out, "cpu")
            if world.flop["cpu"] > float(world.spec["cpu_flop"]) and world.ops["cuda"] == 0 and os.getpid() == world.pid:
                world.note("cpu-only", "more than %.0f GFLOP of matrix work ran on the CPU and nothing on the GPU: stopped"
                           % (float(world.spec["cpu_flop"]) / 1e9), world.where.here())  # fmt: skip
                world.stop("cpu-only")
        return out

    def _count(self, operation: Operation, args: Any, kwargs: Dict[str, Any], out: Any, device: str) -> None:
        try:
            flop = float(operation.flop(*args, **kwargs, out_val=out)) if operation.flop is not None else 0.0
        except Exception:
            return
        world = self.world
        world.flop[device] += flop
        place = world.where.here(2)
        key = (place, device)
        row = world.work.get(key)
        if row is None:
            row = world.work[key] = {"place": place, "device": device, "ops": 0, "flop": 0.0}
        row["ops"] += 1
        row["flop"] += flop

    # -- the card ---------------------------------------------------------------------------------------------------------
    def on_card(self, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int) -> Any:
        """Shapes by the meta kernel (remembered by the shapes of the arguments), then the memory of the results."""
        if kwargs:
            kwargs = {k: (None if k in ("generator", "pin_memory") else v) for k, v in kwargs.items()}
            if kwargs.get("device") is not None:
                kwargs["device"] = PLAIN_META
        if operation.views:
            done = views.quick(operation.func, args, kwargs)
            if done is not NotImplemented:
                return done
        if operation.fast:
            try:
                with C._DisableTorchDispatch():
                    return operation.func(*args, **kwargs)
            except NotImplementedError:
                operation.fast = False
        self._workspace(operation, args, card)
        key: Any = None
        if operation.functional:
            try:
                key = (operation.func, card, tuple([remembered(v) for v in args]), tuple([(k, remembered(v)) for k, v in kwargs.items()]))
                found = self._results.get(key)
                if found is not None:
                    return self.finish(operation, args, kwargs, card, self._again(found, card))
            except TypeError:  # an argument that cannot be a key
                key = None
        out = self._shape(operation, args, kwargs)
        fresh: List[Any] = []
        result = _mapped(out, card, fresh)
        if key is not None and all(fresh) and fresh:
            self._results[key] = _pattern(result)
        return self.finish(operation, args, kwargs, card, result)

    def _again(self, pattern: Any, card: int) -> Any:
        kind, parts = pattern
        made = [p if p is None else pretend.make(p[0], p[1], p[2], card) for p in parts]
        return made[0] if kind is None else kind(made)

    def _shape(self, operation: Operation, args: Any, kwargs: Dict[str, Any]) -> Any:
        """The meta kernel's answer; where there is none, or it refuses, the CPU's (for its words, or for the shape)."""
        try:
            with Kernel():
                return operation.func(*args, **kwargs)
        except (NotImplementedError, RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
            return words.second_opinion(self.world, operation, args, kwargs, error)

    def finish(self, operation: Operation, args: Any, kwargs: Dict[str, Any], card: int, out: Any) -> Any:
        """New storages get their memory, work is counted, known values are followed."""
        news: List[Tuple[Record, Tensor]] = []
        if isinstance(out, Tensor):
            self.adopt(out, operation, card, news)
        elif isinstance(out, (list, tuple)):
            for item in out:
                if isinstance(item, Tensor):
                    self.adopt(item, operation, card, news)
        if operation.flop is not None:
            workspaces.convolution(self.world, operation.short, args, card)
            self._count(operation, args, kwargs, out, "cuda")
        if not operation.views:
            known.follow(self, operation, args, kwargs, out, news)
        return out

    def on_card_clone(self, operation: Operation, source: Tensor, card: int) -> Tensor:
        """A new tensor like `source`, for functional forms of operators that change a tensor."""
        made = pretend.make(tuple(source.shape), source.stride(), source.dtype, card)
        self.adopt(made, operation, card)
        return made

    def adopt(
        self, tensor: Tensor, operation: Operation, card: int, news: Optional[List[Tuple[Record, Tensor]]] = None
    ) -> Optional[Record]:
        """Give a pretend tensor's storage its record and its block, if it has none yet."""
        if not pretend.is_pretend(tensor):
            return None
        world = self.world
        ledger = world.cards[c_device(tensor).index]
        storage = tensor.untyped_storage()
        key = storage._cdata
        known: Optional[Record] = ledger.live.get(key)
        if known is not None:
            return known
        record = Record(storage.nbytes(), ledger.index)
        record.op, record.shape, record.dtype = operation.short, tuple(tensor.shape), tensor.dtype
        record.place = world.where.here(2)
        record.phase = self.phase()
        record.call = world.call
        record.step = world.steps
        try:
            ledger.born(record, key, storage)
        except allocator.OutOfMemory as error:
            self._out_of_memory(ledger, record, key, storage, error)
        if news is not None:
            news.append((record, tensor))
        return record

    def phase(self) -> str:
        """What the program is doing."""
        if self.world.phase:
            return self.world.phase
        if C._current_graph_task_id() != -1:
            return "backward"
        return "forward" if torch.is_grad_enabled() else "other"

    def _workspace(self, operation: Operation, args: Any, card: int) -> None:
        try:
            workspaces.before(self.world, operation.short, args, card)
        except allocator.OutOfMemory as error:
            ledger = self.world.cards[card]
            record = Record(0, card)
            record.op, record.place, record.phase = operation.short, self.world.where.here(2), self.phase()
            self._told_out_of_memory(ledger, record, error)

    def _out_of_memory(self, ledger: Any, record: Record, key: int, storage: Any, error: allocator.OutOfMemory) -> None:
        self._told_out_of_memory(ledger, record, error)
        ledger.born(record, key, storage)

    def _told_out_of_memory(self, ledger: Any, record: Record, error: allocator.OutOfMemory) -> None:
        """Raise as CUDA would, or note it and go on with a card that has no end: the answer then tells how much is needed."""
        world = self.world
        if world.oom is None:
            world.oom = {
                "message": str(error), "asked": record.nbytes, "place": record.place, "op": record.op, "phase": record.phase,
                "step": world.steps, "device": ledger.index, "stack": world.where.stack(3), "allocated": ledger.memory.allocated,
                "reserved": ledger.memory.reserved,
            }  # fmt: skip
        if not world.go_on_after_oom:
            raise OutOfMemoryError(str(error)) from None
        ledger.memory.capacity = allocator.UNLIMITED

    # -- values -----------------------------------------------------------------------------------------------------------
    def record_of(self, tensor: Any) -> Optional[Record]:
        """The record of a pretend tensor's storage."""
        index = pretend.index_of(tensor)
        if index is None or index >= len(self.world.cards):
            return None
        try:
            key = tensor.untyped_storage()._cdata
        except (NotImplementedError, RuntimeError):  # a wrapper of torch.func: the tensor inside it comes by itself
            return None
        found: Optional[Record] = self.world.cards[index].live.get(key)
        return found

    def twin_of(self, tensor: Tensor) -> Optional[Tensor]:
        """The values of a tensor as a real one, if they are known."""
        record = self.record_of(tensor)
        if record is None or record.twin is None:
            return None
        return shadows.seen_through(record.twin, tensor)

    def unfollowed(self, op: str, why: str) -> Unfollowed:
        """The error for what cannot be followed; its line is noted."""
        self.world.unsupported(op, why, False)
        return Unfollowed("%s cannot be followed by the dry run: %s" % (op, why))


def world_card(card: Optional[int]) -> int:
    """The card of an operation that has one."""
    return card if card is not None else 0


def _mapped(out: Any, card: int, fresh: List[Any]) -> Any:
    """Results of a meta kernel as pretend tensors; what is already one (a view, an argument) stays as it is."""
    if isinstance(out, Tensor):
        if c_is_meta(out) and c_device(out).index is None:
            fresh.append(True)
            return pretend.like(out, card)
        fresh.append(False)
        return out
    if isinstance(out, (list, tuple)):
        return type(out)([_mapped(item, card, fresh) for item in out]) if type(out) in (list, tuple) else tuple(
            _mapped(item, card, fresh) for item in out
        )
    if out is not None:
        fresh.append(False)
    return out


def _pattern(result: Any) -> Any:
    """What must be known to make such results again without the kernel."""
    if isinstance(result, Tensor):
        return None, [(tuple(result.shape), result.stride(), result.dtype)]
    return type(result), [None if r is None else (tuple(r.shape), r.stride(), r.dtype) for r in result]
