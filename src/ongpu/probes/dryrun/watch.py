"""Follows the training itself: which module runs, backward passes, optimizer steps, gradient accumulation, whose memory is whose."""

from __future__ import annotations

import time
import weakref
from typing import Any, Dict, List, Optional

import torch
from torch import Tensor

from . import pretend
from .loaders import each_tensor
from .mode import Mode
from .words import device_of


class Call:
    """One run of a module's forward. `parent`: the call that it ran in."""

    __slots__ = ("backward", "module", "parent", "serial", "trained")

    def __init__(self, module: Any, parent: Optional["Call"], serial: int, backward: bool) -> None:
        self.module, self.parent, self.serial, self.backward = weakref.ref(module), parent, serial, backward
        self.trained = module.training


class Watch:
    """The hooks. All are torch's own global ones, or wrappers of a public function."""

    def __init__(self, mode: Mode) -> None:
        self.mode, self.world = mode, mode.world
        self.models: Dict[int, Dict[str, Any]] = {}
        self.optimizers: Dict[int, Dict[str, Any]] = {}
        self.window: List[Dict[str, Any]] = []
        self.windows: List[Dict[str, Any]] = []
        self.zeroed = False
        self.grads_scaled = False  # the gradients themselves were divided in this window
        self.inputs: Dict[str, int] = {}
        self.seen: Optional[Dict[str, Any]] = None
        self.force_none = False
        self.around_forward: Any = None  # makes a context that a trial wants around forward and loss
        self._around: Any = None
        self.finish: Any = None  # called when the wanted steps are done; True: more steps are wanted
        self._serial = 0

    def install(self) -> None:
        """Put the hooks in place."""
        nn = torch.nn.modules.module
        nn.register_module_forward_pre_hook(self._enter)
        nn.register_module_forward_hook(self._leave, always_call=True)
        from torch.optim import optimizer as module

        module.register_optimizer_step_pre_hook(self._before_step)
        module.register_optimizer_step_post_hook(self._after_step)
        self._wrap_backward()
        self._wrap_zero(module.Optimizer)
        self._wrap_scaler()

    # -- modules ----------------------------------------------------------------------------------------------------------
    def _enter(self, module: Any, args: Any) -> None:
        world = self.world
        self._serial += 1
        if world.call is None:
            self._model(module)
            sizes: Dict[str, int] = {}
            for tensor in each_tensor(args):
                name = device_of(tensor)
                sizes[name] = sizes.get(name, 0) + tensor.numel() * tensor.element_size()
            self.inputs = sizes or self.inputs
            if self.around_forward is not None and self._around is None and torch.is_grad_enabled():
                self._around = self.around_forward()
                self._around.__enter__()
        world.call = Call(module, world.call, self._serial, torch._C._current_graph_task_id() != -1)

    def _leave(self, module: Any, args: Any, result: Any) -> None:
        call = self.world.call
        if self.seen is None and call is not None and call.parent is None:
            self.look()
        while call is not None and call.module() is not module:  # an exception inside skipped some
            call = call.parent
        self.world.call = call.parent if call is not None else None

    def look(self) -> None:
        """Where everything sits now: kept, as a script's models may be gone when it ends."""
        from .accounts import owners_of

        self.seen = owners_of(self)

    def leave_forward(self) -> None:
        """End what a trial put around forward and loss."""
        if self._around is not None:
            around, self._around = self._around, None
            around.__exit__(None, None, None)

    def _model(self, module: Any) -> None:
        row = self.models.get(id(module))
        if row is None:
            row = self.models[id(module)] = {"module": weakref.ref(module), "called": 0}
        row["called"] += 1
        if row["called"] <= 2:
            self.tag(module)

    def tag(self, module: Any) -> None:
        """Say of a model's storages that they are weights and buffers."""
        for kind, tensors in (("weight", module.parameters()), ("buffer", module.buffers())):
            for tensor in tensors:
                record = self.mode.record_of(tensor) if not isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin) else None
                if record is not None:
                    record.kind = kind

    # -- backward ---------------------------------------------------------------------------------------------------------
    def _wrap_backward(self) -> None:
        old = torch.autograd.backward
        world = self.world

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            inner = torch._C._current_graph_task_id() != -1
            if not inner:
                self.leave_forward()
                if world.enough:
                    world.stop("steps")
                first = tensors if isinstance(tensors, Tensor) else (tensors[0] if tensors else None)
                on_card = first is not None and pretend.is_pretend(first)
                if on_card or world.ops["cuda"] == 0:
                    world.backwards += 1
                    place = world.where.here()
                    self.window.append({"place": place, "divisor": divisor(self.mode, first) if first is not None else None})
            return old(tensors, *args, **kwargs)

        torch.autograd.backward = backward

    # -- optimizers -------------------------------------------------------------------------------------------------------
    def _row(self, optimizer: Any) -> Dict[str, Any]:
        row = self.optimizers.get(id(optimizer))
        if row is None:
            group = optimizer.param_groups[0] if optimizer.param_groups else {}
            row = self.optimizers[id(optimizer)] = {
                "optimizer": weakref.ref(optimizer), "class": type(optimizer).__name__, "steps": 0, "foreach": group.get("foreach"),
                "fused": group.get("fused"), "set_to_none": None, "place": None,
            }  # fmt: skip
        return row

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.world.enough and self.window:
            self.world.stop("steps")
        self._row(optimizer)["place"] = self.world.where.here()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                record = self.mode.record_of(parameter)
                if record is not None:
                    record.kind = "weight"
                grad = parameter.grad
                if grad is not None:
                    record = self.mode.record_of(grad)
                    if record is not None:
                        record.kind = "gradient"
        self.world.phase = "optimizer"

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        world = self.world
        world.phase = ""
        row = self._row(optimizer)
        row["steps"] += 1
        if row["steps"] <= 3:
            for state in optimizer.state.values():
                for value in state.values() if isinstance(state, dict) else ():
                    record = self.mode.record_of(value) if isinstance(value, Tensor) else None
                    if record is not None and record.kind != "weight":
                        record.kind = "optimizer_state"
        if len(self.optimizers) > 1 and not self.window:
            return  # a second optimizer after the same backward pass belongs to the same step
        world.steps += 1
        if row["steps"] <= 2 or world.steps == int(world.spec["steps"] or 0):
            self.look()
        self._close_window(row["place"])
        counted = not world.spec["steps"] or world.steps <= int(world.spec["steps"])
        for ledger in world.cards:
            ledger.end_step(counted)
        for follow in list(world.at_step):
            follow(self)
        if world.spec["steps"] and world.steps == int(world.spec["steps"]):
            more = self.finish is not None and self.finish()
            world.enough = not more  # what the loop does after its step still runs; the next batch or backward pass ends it
        if time.time() - world.started > float(world.spec["seconds"]):
            world.stop("seconds")

    def _close_window(self, place: Any) -> None:
        divisors = [w["divisor"] for w in self.window]
        scaled: Optional[bool] = None
        if len({w["place"] for w in self.window}) < len(self.window):  # one line again and again; losses of several lines are meant
            if self.grads_scaled or any(d is not None and d > 1 for d in divisors):
                scaled = True
            else:
                scaled = None if any(d == UNKNOWN for d in divisors) else False
        self.windows.append(
            {"backwards": len(self.window), "scaled": scaled, "step_place": place,
             "backward_place": self.window[-1]["place"] if self.window else None, "zeroed": self.zeroed}
        )  # fmt: skip
        self.window, self.zeroed, self.grads_scaled = [], False, False

    def _wrap_zero(self, base: Any) -> None:
        old = base.zero_grad
        watch = self

        def zero_grad(self: Any, set_to_none: bool = True) -> None:
            if not watch.force_none:
                watch._row(self)["set_to_none"] = bool(set_to_none)
            watch.zeroed, watch.window = True, []  # what was summed before is thrown away (LBFGS's closure, once a try)
            old(self, set_to_none or watch.force_none)

        base.zero_grad = zero_grad
        module = torch.nn.Module
        old_module = module.zero_grad

        def module_zero(self: Any, set_to_none: bool = True) -> None:
            watch.zeroed, watch.window = True, []
            for row in watch.optimizers.values() if not watch.force_none else ():
                row["set_to_none"] = bool(set_to_none)
            old_module(self, set_to_none or watch.force_none)

        module.zero_grad = module_zero

    def _wrap_scaler(self) -> None:
        scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
        counts = self.world.calls.setdefault("grad_scaler", {"created": 0, "steps": 0, "updates": 0, "unscales": 0})
        for method, name in (("__init__", "created"), ("step", "steps"), ("update", "updates"), ("unscale_", "unscales")):
            old = getattr(scaler, method)

            def counted(self: Any, *args: Any, _old: Any = old, _name: str = name, **kwargs: Any) -> Any:
                counts[_name] += 1
                return _old(self, *args, **kwargs)

            setattr(scaler, method, counted)


UNKNOWN = -1.0


def divisor(mode: Mode, loss: Tensor) -> Optional[float]:
    """What a loss was divided by before backward(), looked for in the last operations of its graph: UNKNOWN for a division by a
    value that nobody knows, None if it was not divided."""
    node = loss.grad_fn
    for _ in range(6):
        if node is None:
            return None
        name = type(node).__name__
        if name in ("DivBackward0", "MulBackward0"):
            value = _number(mode, getattr(node, "_saved_other", None))
            if name == "DivBackward0" and value != 1:
                return value if value is not None else UNKNOWN
            if name == "MulBackward0" and value is not None and 0 < value < 1:
                return 1 / value
        node = node.next_functions[0][0] if node.next_functions else None
        if name not in ("MulBackward0", "ToCopyBackward0", "AddBackward0", "CloneBackward0", "DivBackward0"):
            return None
    return None


def _number(mode: Mode, value: Any) -> Optional[float]:
    if isinstance(value, Tensor):
        if value.numel() != 1:
            return None
        if not pretend.is_pretend(value):
            return float(value)
        twin = mode.twin_of(value)
        return float(twin) if twin is not None else None
    return float(value) if isinstance(value, (int, float)) else None
