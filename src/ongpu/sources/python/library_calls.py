"""What the functions and classes of known libraries give when they are called."""

import ast

from ongpu.facts.program import Event
from ongpu.facts.traced import JITS, TF_FUNCTION
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
    Instance,
    Items,
    Loader,
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
from ongpu.sources.python.expressions import Expressions
from ongpu.sources.python.scope import flat

Kw = dict[str, Value]


class LibraryCalls(Expressions):
    """Evaluates calls of imported names."""

    def construct(self, cls: Class, args: list[Value], kw: Kw, event: Event) -> Value:
        """A new object of the program's own class."""
        raise NotImplementedError

    def sample_place(self, dataset: Dataset) -> str:
        """Where the tensors of a sample of that dataset lie."""
        raise NotImplementedError

    def unknown(self, event: Event) -> Value:
        """Code that nobody sees."""
        self.escape((*event.args, *(event.kw or {}).values()), event)
        for value in (*event.args, *(event.kw or {}).values()):
            if isinstance(value, Function) and value not in self.waiting:
                self.waiting.append(value)
        hint = event.name.removeprefix(".")
        if hint in library.FAILS:
            return Unknown("fails")
        return Unknown(hint + "()" if any(w in hint.lower() for w in ("device", "cuda")) else "")

    def backward(self, event: Event, base: Value) -> None:
        """A backward pass starts at that value."""
        if isinstance(base, Tensor | Unknown):
            base.backwards = [*(base.backwards or ()), event]
        for loop in self.at.loops:
            loop.backwards = [*(loop.backwards or ()), event]

    def managed_by(self, value: Value, event: Event) -> Value:
        """The value after a framework took it: it places modules and loaders."""
        if isinstance(value, Module):
            self.move(value, Move(event, Device(MANAGED)))
        elif isinstance(value, Loader):
            return Loader(value.made, value.dataset, MANAGED)
        elif isinstance(value, Optimizer):
            value.managed = True
        return value

    def library(self, node: ast.Call, name: str, args: list[Value], kw: Kw, stars: bool) -> Value:
        """What the call of an imported name gives."""
        event = self.event("call", name, node, args=tuple(args), kw=kw, stars=stars)
        event.value = self._known(event, name, args, kw)
        return event.value

    def _known(self, event: Event, name: str, args: list[Value], kw: Kw) -> Value:
        if name in library.MANAGERS:
            self.managed.add(library.MANAGERS[name])
        if name.startswith("torch."):
            found = self._torch(event, name, args, kw)
            if found is not None:
                return found
        elif name in library.BUILTINS or name in library.THROUGH:
            return self._builtin(event, name, args, kw)
        if name in library.HANDLES:
            self.escape((*args, *kw.values()), event)
            return Handle(name, event)
        if name in JITS or name in TF_FUNCTION:
            return args[0] if args and isinstance(args[0], Function) else self.unknown(event)
        if name in library.OPTIMIZERS or (name.startswith(library.OPTIMIZER_HOMES) and name.rpartition(".")[2][:1].isupper()):
            return self._optimizer(event, name, args, kw) or Unknown()
        if name == "deepspeed.initialize":
            model = kw.get("model", args[1] if len(args) > 1 else None)
            if isinstance(model, Module):
                self.managed_by(model, event)
            return Items([model or Unknown(), Unknown(), Unknown(), Unknown()], "tuple")
        last = name.rpartition(".")[2]
        if name.startswith(library.MODEL_MAKERS) or (last in library.PRETRAINED and not any(w in name for w in ("Tokenizer", "Processor", "Config", "Extractor", "Pipeline"))):
            return self._foreign_model(event, name, args, kw)
        if name.startswith((*library.DATASETS, "datasets.load_")):
            return Dataset(name, tuple(args), event)
        if last.endswith("DataLoader") and name.startswith("torch_geometric"):
            return Unknown()
        if name.split(".", 1)[0] in ("numpy", "os", "math", "random", "time", "json", "logging", "sys", "pathlib", "argparse", "matplotlib", "pandas", "re"):
            self.escape((*args, *kw.values()), event)
            return Unknown(name if "environ" in name else "")
        if last[:1].isupper() and not last.isupper():
            return self._foreign_object(event, name, args, kw)
        return self.unknown(event)

    def _foreign_object(self, event: Event, name: str, args: list[Value], kw: Kw) -> Value:
        """An object of a class that nobody sees; it may be a module, and places itself where it is told a device."""
        self.escape((*args, *kw.values()), event)
        module = Module(name, event, sure=False)
        if event.stars or any(isinstance(v, Device) for v in (*args, *kw.values())) or any("device" in key or "gpu" in key for key in kw) or any(isinstance(v, Unknown) and any(w in v.hint.lower() for w in ("device", "args", "cfg", "config", "opt", "gpu")) for v in (*args, *kw.values())):
            module.moves = [Move(event, Device(NOWHERE))]
        self.modules.append(module)
        return module

    def _foreign_model(self, event: Event, name: str, args: list[Value], kw: Kw) -> Module:
        module = Module(name, event)
        inner = args[0] if args else kw.get("model")
        if isinstance(inner, Module) and inner.sure and not inner.root.me:  # PeftModel.from_pretrained(model, ...): around a model, which stays where it is
            module.moves, module.escapes = inner.moved(), inner.leaks()
            self.own(module, inner)
        elif "Peft" in name and "Auto" not in name:
            module.moves = [Move(event, Device(NOWHERE))]
        if "device_map" in kw or event.stars or kw.get("quantization_config") or kw.get("load_in_8bit") or kw.get("load_in_4bit"):
            given = kw.get("device_map")
            where = self.device(given)
            module.moves = [Move(event, Device(where.where if where and where.where in (CPU, CUDA) else MANAGED))]
        self.modules.append(module)
        return module

    def _builtin(self, event: Event, name: str, args: list[Value], kw: Kw) -> Value:
        first = args[0] if args else None
        if name == "dict" and not args and not event.stars:
            return Items(list(kw.values()), "dict", keys=[Const(key) for key in kw])
        if name == "enumerate":
            return Items([Items([Number(), self.each(first)], "tuple")], "list", True) if first is not None else Unknown()
        if name == "zip":
            return Items([Items([self.each(value) for value in args], "tuple")], "list", True)
        if name in ("next",):
            return self.each(first) if first is not None else Unknown()
        if name in ("range", "len", "int", "round", "abs", "id", "tqdm.trange") or (name == "float"):
            return Number(first if isinstance(first, Tensor) else None)
        if name in ("sum", "max", "min") and first is not None:
            inner = self.each(first) if name == "sum" or len(args) == 1 else first
            if isinstance(inner, Tensor):
                return self.tensor_of([inner], origin=inner.origin, scalar=inner.scalar)
            return Number() if isinstance(inner, Number | Const) else Unknown()
        if name in library.THROUGH:
            given = first if first is not None else kw.get("iterable")
            if isinstance(given, Module) and name.startswith("copy."):
                return self._copied(given, event)
            if given is None:
                return Items([], name if name in ("list", "set", "tuple") else "list", made_in=len(self.at.loops))
            if name in ("list", "tuple", "sorted", "set") and isinstance(given, Items):
                return Items(list(given.items), "list", given.uniform, made_in=len(self.at.loops))
            return given
        if name == "dict":
            return Items(list(kw.values()), "dict", False, [Const(key) for key in kw]) if not args and not event.stars else Unknown()
        if name in ("map",) and len(args) == 2 and isinstance(args[0], Function):
            return Items([self.run(args[0], [self.each(args[1])], {}, event)], "list", True)
        if name == "getattr" and len(args) > 1 and isinstance(args[1], Const) and isinstance(args[1].value, str) and isinstance(first, Named | Instance | Module):
            return self.attribute(first, args[1].value, event.call)
        if name == "setattr" and isinstance(first, Module):
            first.escapes = [*(first.escapes or ()), event]
            self.escape(args[2:], event)  # a part, under a name that nobody knows
        if name in ("str", "repr", "format", "print", "bool", "isinstance", "hasattr", "callable", "type", "any", "all", "vars", "dir", "hash"):
            return Number() if name not in ("type",) else Unknown()
        if name == "super":
            frame = self.at.frame
            if frame.me is not None and frame.function and frame.function.cls:
                return Super(frame.me, frame.function.cls)
        return Unknown()

    def _copied(self, module: Module, event: Event) -> Module:
        """A deep copy: it lies where the module lies now, and goes its own way."""
        copied = Module(module.cls, event, module.sure, module.me, module.moved(), module.leaks(), module.modes, module.attrs, wraps=module.wraps)
        self.modules.append(copied)
        return copied

    def _torch(self, event: Event, name: str, args: list[Value], kw: Kw) -> Value | None:
        short = name[6:]
        if name == "torch.device":
            return self._device_call(event, args, kw)
        if name in library.MAKERS or name in library.FROM_HOST:
            return self._made(event, name, args, kw)
        if name in library.LIKE:
            base = args[0] if args else kw.get("input")
            device = self.device(kw.get("device")) if "device" in kw else None
            moved = CUDA if isinstance(base, Unknown) and base.hint == "cuda" else NOWHERE  # what nobody knows was moved there
            where = device.where if device else base.where if isinstance(base, Tensor) else moved
            return Tensor(where, "made", False, made=event, placed="device" in kw or (isinstance(base, Tensor) and base.placed))
        if name in library.CUDA_MAKERS:
            return Tensor(CUDA, "made", False, made=event, placed=True)
        if name in ("torch.cuda.is_available", "torch.cuda.device_count", "torch.cuda.is_initialized"):
            return Unknown("cuda-available")
        if name in library.SET_CUDA_DEFAULT:
            self._default_device(args)
            return Const(None)
        if name in ("torch.compile", "torch.jit.script", "torch.jit.trace"):
            return args[0] if args and isinstance(args[0], Module | Function) else Unknown()
        if name == "torch.load":
            return Unknown("checkpoint")
        if name in ("torch.set_grad_enabled", "torch._C._set_grad_enabled"):
            given = args[0] if args else kw.get("mode")
            if event.discarded:
                off = isinstance(given, Const) and given.value is False
                self.at = self.changed(grad=False if off else True if isinstance(given, Const) else None)
            return Handle("torch.no_grad" if isinstance(given, Const) and not given.value else "torch.set_grad_enabled", event)
        if name == "torch.autograd.backward":
            self.backward(event, args[0] if args else Unknown())
            return Const(None)
        if name == "torch.autograd.grad":
            for value in flat(args):
                value.backwards = [*(value.backwards or ()), event]
            return Unknown()
        if name in library.HANDLES:
            return Handle(name, event)
        if short.startswith("optim."):
            return self._optimizer(event, name, args, kw)
        if name == "torch.utils.data.DataLoader":
            return self._loader(event, args, kw)
        if name.startswith(library.DATASETS):
            return Dataset(name, tuple(args), event)
        if name == "torch.utils.data.random_split":
            return Items([Dataset("torch.utils.data.Subset", tuple(args[:1]), event)], "list", True)
        if short.startswith("nn."):
            return self._nn(event, name, args, kw)
        if short.startswith("distributed.fsdp.") and args and isinstance(args[0], Module):
            self.managed_by(args[0], event)
            return args[0]
        if name in library.NOT_TENSORS and short not in ("split", "chunk"):
            return Unknown()
        if short.partition(".")[0] in ("cuda", "backends", "distributed", "multiprocessing", "utils", "jit", "onnx", "profiler", "_C", "overrides", "hub", "ao", "fx", "export", "testing", "library", "_dynamo", "mps", "xpu"):
            if name not in library.HARMLESS and not name.startswith(("torch.distributed.", "torch.cuda.")):
                self.escape((*args, *kw.values()), event)
            return Unknown(name if "current_device" in name else "")
        last = name.rpartition(".")[2]
        if last[:1].isupper() or last.startswith("_"):
            return Unknown()
        return self._operation(event, last, args, kw)

    def _operation(self, event: Event, last: str, args: list[Value], kw: Kw) -> Value:
        values = [*args, *kw.values()]
        if last in library.LOSS_FUNCTIONS:
            reduction = kw.get("reduction")
            self.mix(last, event.call, tuple(flat(values[: 1 if last == "ctc_loss" else 2])))
            return self.tensor_of(values, origin="loss", scalar=not (isinstance(reduction, Const) and reduction.value == "none"), made=event)
        self.mix(last, event.call, tuple(flat(values)))
        made = self.tensor_of(values, made=event)
        if last in library.NO_GRADIENT:
            made.graph = False
        if last in ("sum", "mean") and len(args) == 1 and not kw:
            made.scalar = True
        device = self.device(kw.get("device")) if "device" in kw else None
        if device:
            made.where, made.placed = device.where, True
        return Items([made], "tuple", True) if last in library.SEVERAL and last not in ("topk", "sort") else made

    def _made(self, event: Event, name: str, args: list[Value], kw: Kw) -> Tensor:
        where, placed = self.at.device or self.default_device or CPU, False
        if "device" in kw:
            node = next((k.value for k in event.call.keywords if k.arg == "device"), None)
            device = self.device(kw["device"], node)
            placed = not (isinstance(kw["device"], Const) and kw["device"].value is None)
            where = device.where if device else where if not placed else NOWHERE
        elif event.stars or (name == "torch.normal" and not all(isinstance(v, Const | Number | Items) for v in (*args, *kw.values()))):
            where = NOWHERE  # torch.normal of a tensor lies where that lies
        first = args[0] if args else kw.get("data")
        if name in ("torch.as_tensor", "torch.tensor") and isinstance(first, Tensor) and not placed:
            where, placed = first.where, first.placed
        scalar = name in ("torch.tensor", "torch.as_tensor", "torch.scalar_tensor") and not isinstance(first, Items | Tensor | Unknown)
        if name in ("torch.zeros", "torch.ones", "torch.full", "torch.empty", "torch.randn", "torch.rand"):
            scalar = (isinstance(first, Items) and not first.items and not first.uniform) or (not args and not event.stars and "size" not in kw)
        graph = isinstance(kw.get("requires_grad"), Const) and bool(getattr(kw["requires_grad"], "value", False))
        return Tensor(where, "made", graph, scalar, tuple(flat(args)), event, placed)

    def _device_call(self, event: Event, args: list[Value], kw: Kw) -> Value:
        first = args[0] if args else kw.get("type", kw.get("device"))
        found = self.device(first, event.call.args[0] if event.call.args else None)
        if found is None:
            return Device(ANY)
        if len(args) > 1 or "index" in kw:
            index = args[1] if len(args) > 1 else kw["index"]
            known = isinstance(index, Const) and isinstance(index.value, int)
            return Device(found.where, index.value if isinstance(index, Const) and known else None, not known)
        return found

    def _default_device(self, args: list[Value]) -> None:
        given = args[0] if args else None
        if isinstance(given, Const) and isinstance(given.value, str) and "cuda." in given.value:
            self.default_device = CUDA
        elif isinstance(given, Const) and isinstance(given.value, str) and given.value.startswith("torch."):
            self.default_device = CPU
        else:
            device = self.device(given)
            self.default_device = device.where if device else NOWHERE

    def _nn(self, event: Event, name: str, args: list[Value], kw: Kw) -> Value | None:
        last = name.rpartition(".")[2]
        if name.startswith("torch.nn.functional."):
            return self._operation(event, last, args, kw)
        if name.startswith(("torch.nn.utils.", "torch.nn.init.")):
            return args[0] if args else Unknown()
        if last in ("DataParallel", "DistributedDataParallel"):
            inner = args[0] if args else kw.get("module")
            if not isinstance(inner, Module):
                return Unknown()
            made = Module(name, event, inner.sure, wraps=inner)
            self.modules.append(made)
            return made
        if last in ("Parameter", "Buffer"):
            inner = args[0] if args else None
            return Tensor(inner.where if isinstance(inner, Tensor) else NOWHERE, "parameter", last == "Parameter", made=event, placed=isinstance(inner, Tensor) and inner.placed)
        if not last[:1].isupper():
            return None
        module = Module(name, event)
        device = self.device(kw.get("device")) if "device" in kw else None
        if "device" in kw or event.stars:
            module.moves = [Move(event, device or Device(NOWHERE))]
        elif self.at.device or self.default_device:
            module.moves = [Move(event, Device(self.at.device or self.default_device or NOWHERE))]
        parts: list[Value] = [*args, *kw.values()]
        for value in parts:
            inner_parts = value.items if isinstance(value, Items) else [value]
            for index, part in enumerate(inner_parts):
                if isinstance(part, Module):
                    self.own(module, part)
                    if last in ("Sequential", "ModuleList", "ModuleDict"):
                        module.attrs = {**(module.attrs or {}), f"[{len(module.attrs or ()) if value is part else index}]": part}
        self.modules.append(module)
        return module

    def _optimizer(self, event: Event, name: str, args: list[Value], kw: Kw) -> Value | None:
        last = name.rpartition(".")[2]
        if ".lr_scheduler." in name or ".swa_utils." in name or not last[:1].isupper():
            return Unknown("scheduler")
        over: list[Value] = []
        self._parameters(args[0] if args else kw.get("params"), over)
        optimizer = Optimizer(name, event, tuple(over))
        self.optimizers.append(optimizer)
        return optimizer

    def _parameters(self, value: Value | None, over: list[Value], depth: int = 0) -> None:
        if isinstance(value, Parameters):
            over.append(value.module)
        elif isinstance(value, Tensor):
            over.append(next((part for part in value.parents if isinstance(part, Module)), value))
        elif isinstance(value, Items) and depth < 3:
            for item in value.items:
                self._parameters(item, over, depth + 1)

    def _loader(self, event: Event, args: list[Value], kw: Kw) -> Value:
        dataset = args[0] if args else kw.get("dataset", Unknown())
        where = CPU
        if isinstance(dataset, Dataset):
            inner: Dataset = dataset
            while isinstance(inner.cls, str) and inner.cls.endswith("Subset") and inner.items and isinstance(inner.items[0], Dataset):
                inner = inner.items[0]
            held = flat(inner.items)
            if held and any(t.where != CPU for t in held):
                where = held[0].where if len({t.where for t in held}) == 1 else NOWHERE
            elif isinstance(inner.cls, Class):
                where = self.sample_place(inner)
        elif isinstance(dataset, Tensor):
            where = dataset.where
        elif isinstance(dataset, Items):
            places = {t.where for t in flat([dataset])}
            where = CPU if places <= {CPU} else NOWHERE
        else:
            where = NOWHERE if isinstance(dataset, Unknown) and not dataset.hint else CPU
        collate = kw.get("collate_fn")
        if collate is not None and not (isinstance(collate, Const) and collate.value is None):
            if isinstance(collate, Function):
                self.collates.append(collate)
            where = NOWHERE
        if event.stars or self.default_device or ("generator" in kw and where != CPU):
            where = NOWHERE
        loader = Loader(event, dataset, where)
        self.loaders.append(loader)
        return loader
