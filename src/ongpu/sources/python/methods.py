"""What the methods of modules, tensors, lists, optimizers and other known objects do."""

import ast

from ongpu.facts.program import Event
from ongpu.facts.values import (
    ANY,
    CPU,
    CUDA,
    MANAGED,
    NOWHERE,
    Class,
    Const,
    Dataset,
    Device,
    Function,
    Handle,
    Items,
    Method,
    Module,
    Move,
    Named,
    Number,
    Optimizer,
    Parameters,
    Super,
    Tensor,
    Unknown,
    Value,
)
from ongpu.sources.python import library
from ongpu.sources.python.library_calls import Kw, LibraryCalls
from ongpu.sources.python.scope import flat

# TensorFlow keeps graphs on a tape; what changes samples keeps none.
GRAPHLESS = ("keras.", "torchvision.transforms.", "torchaudio.transforms.", "albumentations.")
_MOVES = {"cuda": CUDA, "cpu": CPU, "xpu": "other", "to": "", "to_empty": "", "npu": "other"}


class Methods(LibraryCalls):
    """Evaluates calls of methods, and of modules."""

    # Modules

    def _member(self, module: Module, name: str, node: ast.expr) -> Value:
        """What module.name is, where it is called: a part or method of its own, else one that all modules have."""
        if name in (module.attrs or {}) or (isinstance(module.cls, Class) and module.cls.find(name) is not None):
            found = self.attribute(module, name, node)
            if not isinstance(found, Unknown):
                return found
        return Method(module, name)

    def inherited(self, base: Super, name: str) -> Value:
        """super().name, to be called."""
        found = next((f for cls in base.cls.own_bases if (f := cls.find(name)) is not None), None)
        return Method(base.me, name, found if isinstance(found, Function) else None)

    def forward(self, node: ast.Call, module: Module, args: list[Value], kw: Kw, stars: bool) -> Value:
        """What a module gives that is called."""
        event = self.event("call", "forward", node, module, tuple(args), kw, stars=stars)
        for loop in self.at.loops:
            loop.forwards = [*(loop.forwards or ()), event]
        # The program's own forward is followed: what meets there is told there. The CTC loss takes targets and lengths of the CPU.
        if isinstance(module.cls, str) and not module.cls.endswith("CTCLoss"):
            self.mix("forward", node, tuple(flat([*args, *kw.values()])))
        place = module.where(event)
        if module.wraps or place == MANAGED:  # DataParallel, DistributedDataParallel and what accelerate prepared move what they are given
            args = [self._brought(value, place) for value in args]
            kw = {name: self._brought(value, place) for name, value in kw.items()}
        inner = module.inner
        found = inner.cls.find("forward") if isinstance(inner.cls, Class) else None
        given: Value | None = None
        if isinstance(found, Function) and not module.me:
            given = self.run(found, args, kw, event, inner, stars)
        event.value = given if given is not None and not isinstance(given, Unknown) else self._output(module, event, args, kw)
        return event.value

    @staticmethod
    def _brought(value: Value, place: str) -> Value:
        """A tensor on the CPU, as it arrives at that place."""
        if not isinstance(value, Tensor) or value.where != CPU:
            return value
        return Tensor(place, value.origin, value.graph, value.scalar, (value,), value.made, True, value.scaled)

    def _output(self, module: Module, event: Event, args: list[Value], kw: Kw) -> Value:
        name = module.name
        place = module.where(event)
        if name.startswith("torch.nn.") and name.endswith("Loss"):
            made = self.tensor_of([*args, *kw.values()], origin="loss", scalar=True)
            reduction = (module.made.kw or {}).get("reduction") if module.made else None
            made.scalar = not (isinstance(reduction, Const) and reduction.value == "none")
            return made
        graph: bool | None = self.at.grad
        if module.modes and any(e.name == ".requires_grad_" for e in module.modes):
            graph = None if graph else graph
        if module.root.name.startswith(GRAPHLESS):
            graph = False
        if not module.weighs:
            return self.tensor_of([*args, *kw.values()], origin="output")
        parents = tuple(flat([*args, *kw.values()]))
        if place == NOWHERE and len({t.where for t in parents}) == 1 and parents:
            place = parents[0].where if parents[0].where != CPU else NOWHERE
        return Tensor(place if place != MANAGED else MANAGED, "output", graph, False, parents, event)


    def _module_method(self, node: ast.Call, module: Module, name: str, args: list[Value], kw: Kw, stars: bool) -> Value:
        event = self.event("call", "." + name, node, module, tuple(args), kw, stars=stars)
        event.value = self._module_answer(event, module, name, args, kw)
        return event.value

    def _module_answer(self, event: Event, module: Module, name: str, args: list[Value], kw: Kw) -> Value:
        if name in _MOVES:
            device = Device(_MOVES[name]) if _MOVES[name] else self._target(event, args, kw)
            if name == "cuda" and (args or kw):
                device = self._card(args, kw)
            if device:
                self.move(module, Move(event, device))
            return module
        if name in ("train", "eval", "requires_grad_"):
            self._mode(module, event)
            return module
        if name in ("half", "float", "double", "bfloat16", "apply", "type", "share_memory", "compile", "zero_grad", "to_bettertransformer", "gradient_checkpointing_enable", "requires_grad"):
            return module
        if name in ("parameters", "state_dict", "buffers", "named_parameters", "named_buffers"):
            module.sure = module.sure or name in ("parameters", "named_parameters")
            if not name.startswith("named"):
                return Parameters(module)
            return Items([Items([Number(), self.each(Parameters(module))], "tuple")], "list", True)
        if name in ("modules", "children", "named_modules", "named_children"):
            part = self.each(module)
            return Items([Items([Number(), part], "tuple") if name.startswith("named") else part], "list", True)
        if name in ("load_state_dict", "register_buffer", "register_parameter", "register_forward_hook", "save_pretrained", "add_module", "append"):
            if name in ("register_buffer", "register_parameter") and args and isinstance(args[0], Const):
                module.attrs = {**(module.attrs or {}), str(args[0].value): Tensor(module.where(event), "parameter", name != "register_buffer")}
            if name == "add_module" and len(args) == 2 and isinstance(args[0], Const):
                self.set_attribute(module, str(args[0].value), args[1], event.node)
            added = args[-1] if name in ("append", "add_module") and args else None
            if isinstance(added, Module):
                self.own(module, added)
            return Unknown()
        if name in ("generate", "predict", "encode", "forward"):
            for loop in self.at.loops:
                loop.forwards = [*(loop.forwards or ()), event]
            if name == "forward":
                found = module.cls.find("forward") if isinstance(module.cls, Class) else None
                if isinstance(found, Function):
                    return self.run(found, args, kw, event, module)
            return Tensor(module.where(event), "output", None, parents=tuple(flat(args)))
        if name in ("fit", "compile_model", "evaluate", "__init__"):
            return Unknown()
        if module.me or not isinstance(module.cls, Class):
            self.escape(args, event)
            return Unknown()
        return self.unknown(event)


    def _mode(self, module: Module, event: Event) -> None:
        module.modes = [*(module.modes or ()), event]
        for inner in module.either:
            self._mode(inner, event)


    def set_attribute(self, module: Module, name: str, value: Value, node: ast.AST) -> None:
        """module.name = value."""
        module.attrs = {**(module.attrs or {}), name: value}
        if isinstance(value, Module):
            self.own(module, value)

    def _target(self, event: Event, args: list[Value], kw: Kw) -> Device | None:
        """The device that the arguments of .to() name; None for a dtype alone."""
        nodes = event.call.args
        for index, value in enumerate(args[:2]):
            if isinstance(value, Tensor):
                return Device(value.where)
            device = self.device(value, nodes[index] if index < len(nodes) else None)
            if device:
                return device
        if "device" in kw:
            return self.device(kw["device"]) or Device(ANY)
        if "other" in kw and isinstance(kw["other"], Tensor):
            return Device(kw["other"].where)
        if "dtype" in kw or "memory_format" in kw or (args and isinstance(args[0], Named)):
            return None
        return Device(NOWHERE) if args or event.stars else None

    def _card(self, args: list[Value], kw: Kw) -> Device:
        """The device of .cuda(argument)."""
        given = args[0] if args else kw.get("device")
        if isinstance(given, Const) and isinstance(given.value, int) and not isinstance(given.value, bool):
            return Device(CUDA, given.value)
        if isinstance(given, Device):
            return Device(CUDA, given.index, given.ranked)
        return Device(CUDA, ranked=given is not None and not isinstance(given, Const))

    # Methods

    def method(self, node: ast.Call, method: Method, args: list[Value], kw: Kw, stars: bool) -> Value:
        """What a method gives that is called."""
        base, name = method.receiver, method.name
        if method.function:
            if isinstance(base, Module) and name == "forward":
                for loop in self.at.loops:
                    loop.forwards = [*(loop.forwards or ()), *self.events[-1:]]
            event = self.event("call", "." + name, node, base, tuple(args), kw, stars=stars)
            event.value = self.run(method.function, args, kw, event, base, stars)
            return event.value
        if isinstance(base, Module):
            return self._module_method(node, base, name, args, kw, stars)
        event = self.event("call", "." + name, node, base, tuple(args), kw, stars=stars)
        event.value = self._answer(event, base, name, args, kw)
        return event.value

    def _answer(self, event: Event, base: Value, name: str, args: list[Value], kw: Kw) -> Value:
        if name == "backward":
            self.backward(event, base)
            return Const(None)
        if name == "step" and not isinstance(base, Tensor):
            return self._step(event, base)
        if isinstance(base, Tensor):
            return self._tensor_method(event, base, name, args, kw)
        if isinstance(base, Optimizer):
            if name == "load_state_dict":
                base.loads = [*(base.loads or ()), event]
            return Unknown()
        if isinstance(base, Items):
            return self._items_method(event, base, name, args)
        if isinstance(base, Dataset) and isinstance(base.cls, str):
            return self._dataset_method(event, base, name, kw)
        if isinstance(base, Handle):
            return self._handle_method(event, base, name, args, kw)
        if isinstance(base, Const | Number):
            return Number()
        if isinstance(base, Unknown):
            return self._unknown_method(event, base, name, args, kw)
        return self.unknown(event)

    def _dataset_method(self, event: Event, base: Dataset, name: str, kw: Kw) -> Value:
        """Methods of Hugging Face's datasets give datasets; set_format(device=...) puts the samples there."""
        self.escape((*event.args, *kw.values()), event)
        if name in ("set_format", "with_format") and ("device" in kw or event.stars):
            base.items = (Tensor(NOWHERE, "made", False),)
        return base if name[:1].islower() and name not in ("num_columns", "to_pandas", "to_list", "to_dict") else Unknown()

    def _unknown_method(self, event: Event, base: Unknown, name: str, args: list[Value], kw: Kw) -> Value:
        if name in ("to", "cuda", "cpu"):
            device = Device(_MOVES[name]) if _MOVES[name] else self._target(event, args, kw)
            if device is None or event.discarded:
                return base
            return Unknown("cuda") if device.where == CUDA else Unknown()
        if name in ("item", "tolist", "numel", "size"):
            return Number()
        if name in ("train", "eval", "detach", "float", "half", "contiguous"):
            return base
        return self.unknown(event)


    def _step(self, event: Event, base: Value) -> Value:
        words = base.hint.lower() if isinstance(base, Unknown) else ""
        if isinstance(base, Optimizer) or "optim" in words or words.endswith("opt") or (isinstance(base, Handle) and base.name.endswith("GradScaler")) or "scaler" in words:
            for loop in self.at.loops:
                loop.steps = [*(loop.steps or ()), event]
        return Unknown()

    def _tensor_method(self, event: Event, base: Tensor, name: str, args: list[Value], kw: Kw) -> Value:
        if name in _MOVES:
            device: Device | None = Device(_MOVES[name]) if _MOVES[name] else self._target(event, args, kw)
            if name == "cuda" and (args or kw):
                device = self._card(args, kw)
            if device is None:
                return Tensor(base.where, base.origin, base.graph, base.scalar, (base,), base.made, base.placed, base.scaled)
            origin = "batch" if base.origin == "batch" else base.origin
            return Tensor(device.where, origin, base.graph, base.scalar, (base,), base.made, True, base.scaled)
        if name in library.TO_NUMBER:
            return Number(base)
        if name == "numpy":
            return Unknown("numpy")
        if name in library.SIZES:
            return Number() if name != "type" or not args else Tensor(_typed(base, args[0]), base.origin, base.graph, parents=(base,), made=base.made, placed=base.placed)
        if name == "type_as" and args:
            return Tensor(args[0].where if isinstance(args[0], Tensor) else NOWHERE, base.origin, base.graph, base.scalar, (base,), base.made, True, base.scaled)
        if name in ("detach", "detach_"):
            return Tensor(base.where, base.origin, False, base.scalar, (), base.made, base.placed, base.scaled)
        if name in ("new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "new"):
            return Tensor(base.where, "made", False, made=event, placed=True)
        if name in ("items", "values", "keys", "pop", "get"):  # a batch that is a dictionary
            inner = Tensor(base.where, base.origin, base.graph, False, (base,), base.made, base.placed)
            if name == "items":
                return Items([Items([Number(), inner], "tuple")], "list", True)
            return inner if name in ("pop", "get") else Items([inner if name == "values" else Number()], "list", True)
        if name == "pin_memory":
            return base
        if name == "type_as" and args and isinstance(args[0], Tensor):
            return Tensor(args[0].where, base.origin, base.graph, base.scalar, (base,), base.made, True, base.scaled)
        if name.endswith("_") and not name.startswith("__"):
            self.mix(name, event.call, tuple(flat([base, *args, *kw.values()])))
            return base
        self.mix(name, event.call, tuple(flat([base, *args, *kw.values()])))
        made = self.tensor_of([base, *args, *kw.values()], made=event)
        if name in ("mean", "sum", "max", "min", "norm", "prod") and not args and not kw:
            made.scalar = True
        made.scalar = made.scalar or (base.scalar and name not in ("expand", "repeat", "view", "unsqueeze", "reshape"))
        if base.origin in ("loss", "batch", "input") and name in ("mean", "sum", "float", "contiguous", "long", "squeeze", "unsqueeze", "view", "reshape", "half", "flatten", "transpose", "permute"):
            made.origin = base.origin
        if name in library.DTYPE_METHODS | {"contiguous", "clone", "view", "reshape", "squeeze", "unsqueeze", "flatten", "transpose", "permute", "expand", "repeat"}:
            made.placed = base.placed
        if name in ("div", "mul", "true_divide"):
            made.scaled = True
        if name in library.NO_GRADIENT:
            made.graph = False
        if name in library.SEVERAL:
            return made if name in ("topk", "sort", "max", "min") else Items([made], "tuple", True)
        return made

    def _items_method(self, event: Event, base: Items, name: str, args: list[Value]) -> Value:
        if name in ("append", "add", "extend", "insert") and args:
            given = args[-1]
            added = self.each(given) if name == "extend" else given
            target = event.call.func
            words = ast.unparse(target.value) if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name | ast.Attribute) else ""
            self.event("accumulate", "extend" if name == "extend" else "append", event.node, base, value=added, target=words)
            if self.at.loops and base.made_in < len(self.at.loops):
                base.items = [self.all_of([*base.items[:1], added])] if base.uniform or not base.items else [self.all_of([*base.items, added])]
                base.uniform = True
            elif len(base.items) < 64:
                base.items = [*base.items, added]
            return Const(None)
        if name == "items" and base.keys is not None:
            return Items([Items([Number(), self.all_of(base.items)], "tuple")], "list", True)
        if name == "items" and base.kind == "dict":
            return Items([Items([Number(), item], "tuple") for item in base.items[:1]], "list", True)
        if name in ("values", "copy"):
            return Items(base.items, "list", base.uniform) if name == "values" else base
        if name in ("get", "pop"):
            found = base.get(args[0].value) if args and isinstance(args[0], Const) else None
            return found if found is not None else self.all_of(base.items) if base.items else Unknown()
        if name == "to":  # BatchEncoding and friends
            device = self._target(event, args, event.kw or {})
            return Tensor(device.where if device else NOWHERE, "batch", False, placed=True)
        return Unknown()

    def _handle_method(self, event: Event, base: Handle, name: str, args: list[Value], kw: Kw) -> Value:
        if base.name == "accelerate.Accelerator" or base.name.endswith("Fabric"):
            if name in ("prepare", "setup", "setup_dataloaders", "setup_module", "setup_optimizers", "prepare_model", "prepare_data_loader", "prepare_optimizer"):
                given = [self.managed_by(value, event) for value in args]
                return given[0] if len(given) == 1 else Items(given, "tuple")
            if name == "backward":
                self.backward(event, args[0] if args else Unknown())
                return Const(None)
            if name in ("autocast", "no_sync", "accumulate"):
                return Handle(f"{base.name}.{name}")
            if name in ("unwrap_model", "gather", "gather_for_metrics", "reduce", "pad_across_processes"):
                return args[0] if args else Unknown()
        if base.name.endswith("GradScaler") and name == "scale":
            return args[0] if args else Unknown()
        self.escape((*args, *kw.values()), event)
        return Unknown()


def _typed(base: Tensor, given: Value) -> str:
    """Where x.type(...) lies: "torch.cuda.FloatTensor" is a place, too; a type that nobody knows may be one."""
    name = given.name if isinstance(given, Named) else given.value if isinstance(given, Const) else None
    if not isinstance(name, str):
        return NOWHERE
    return base.where if not name.endswith("Tensor") else CUDA if ".cuda." in name else CPU
