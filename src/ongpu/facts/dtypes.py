"""Of which type, and in which range, a program's tensors are, as far as the calls that made them tell."""

import ast

from ongpu.facts.program import Event, Script
from ongpu.facts.values import Class, Const, Dataset, Items, Loader, Module, Named, Tensor, Unknown, Value

SAME = frozenset({  # methods that keep type and values
    ".to", ".cuda", ".cpu", ".view", ".reshape", ".unsqueeze", ".squeeze", ".flatten", ".clone", ".detach", ".contiguous", ".permute",
    ".transpose", ".repeat", ".expand", ".requires_grad_", ".pin_memory",
})  # fmt: skip
_METHODS = {".float": "float32", ".double": "float64", ".half": "float16", ".bfloat16": "bfloat16", ".long": "int64", ".int": "int32"}
_WORDS = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32"}
_FLOATS = ("torch.zeros", "torch.ones", "torch.rand", "torch.randn", "torch.linspace", "torch.eye", "torch.empty")
_NUMPY = ("rand", "randn", "random", "normal", "uniform", "standard_normal", "random_sample", "zeros", "ones", "linspace", "eye")
FLOATING = ("float16", "bfloat16", "float32", "float64")


def first_layer(module: Module) -> Module:
    """The layer that gets what the module is given."""
    while module.name == "torch.nn.Sequential" and module.attrs:
        inner = next(iter(module.attrs.values()))
        if not isinstance(inner, Module):
            break
        module = inner
    return module


class Dtypes:
    """The types of one script's tensors; None where nobody knows."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._by_value = {id(e.value): e for e in script.events if e.kind == "call" and e.value is not None and e.name != "forward"}
        self._moved = script.says("set_default_dtype", "set_default_tensor_type")

    def made(self, value: Value | None) -> Event | None:
        """The call that gave this value."""
        return self._by_value.get(id(value))

    def of(self, value: Value | None, depth: int = 0) -> str | None:
        """ "float32", "int64" ..."""
        event = self.made(value)
        if event is None or depth > 20 or self._moved:
            return None
        if event.name in SAME or event.name in _METHODS:
            return _METHODS.get(event.name) or _said(event) or (self.of(event.receiver, depth + 1) if not _unclear(event) else None)
        if not event.name.startswith("torch.") or event.stars:
            return None
        said = _said(event)
        if said or "dtype" in (event.kw or {}):
            return said
        if event.name in _FLOATS:
            return "float32"
        if event.name in ("torch.randint", "torch.randperm", "torch.LongTensor"):
            return "int64"
        if event.name == "torch.FloatTensor":
            return "float32"
        if event.name in ("torch.from_numpy", "torch.as_tensor", "torch.tensor"):
            return self._array(event.arg(0, "data"))
        return None

    def _array(self, value: Value | None) -> str | None:
        """The type of a NumPy array that NumPy made by itself: double precision."""
        event = self.made(value)
        if event is None or not isinstance(value, Unknown) or "dtype" in (event.kw or {}) or event.stars or len(event.args) > 3:
            return None
        last = event.name.rpartition(".")[2]
        drawn = event.name.startswith(".") and last in ("normal", "uniform", "standard_normal")
        generator = drawn and not isinstance(event.receiver, Tensor | Module)
        return "float64" if (event.name.startswith("numpy.") or generator) and last in _NUMPY else None

    def batches(self, loader: Loader) -> set[str | None]:
        """The types of what a TensorDataset's batches hold."""
        dataset = loader.dataset
        if isinstance(dataset, Dataset) and dataset.cls == "torch.utils.data.TensorDataset":
            return {self.of(item) for item in dataset.items}
        if isinstance(dataset, Dataset) and isinstance(dataset.cls, Class) and loader.setting("collate_fn") is None:
            return self._samples(dataset)
        return {None}

    def _samples(self, dataset: Dataset) -> set[str | None]:
        """The types of what __getitem__ makes of the arrays that the data set holds: torch.from_numpy(self.x[i])."""
        mine = [e for e in self._script.events if e.kind == "call" and e.at.frame.kind == "getitem" and e.at.frame.me is dataset]
        if not mine or any(e.name not in ("torch.from_numpy", "torch.as_tensor", "torch.tensor") for e in mine):
            return {None}
        found: set[str | None] = set()
        for event in mine:
            node = event.given(0, "data")
            held = node.value if isinstance(node, ast.Subscript) else None
            kept = isinstance(held, ast.Attribute) and isinstance(held.value, ast.Name) and held.value.id == "self"
            value = (dataset.attrs or {}).get(held.attr) if isinstance(held, ast.Attribute) and kept else None
            found.add(_said(event) or self._array(value) or ("int64" if self._whole(value) else None))
        return found

    def _whole(self, value: Value | None) -> bool:
        event = self.made(value)
        return event is not None and event.name.endswith((".randint", ".integers", ".arange"))

    def weights(self, module: Module, call: Event) -> str | None:
        """The type of a module's parameters when it is called."""
        if not module.sure or self._moved or (module.made and ("dtype" in (module.made.kw or {}) or module.made.stars)):
            return None
        above: list[Module] = [module]
        while above[-1].owner is not None and len(above) < 20:
            above.append(above[-1].owner)
        if any(part.made is not None and part.made.name.startswith("copy.") for part in above):
            return None  # a copy of what may have been halved before
        kind = "float32"
        for event in self._script.events:
            if event.order >= call.order:
                break
            if isinstance(event.receiver, Module) and (event.receiver in above or any(event.receiver.inner is m for m in above)):
                if event.name in _METHODS:
                    kind = _METHODS[event.name]
                elif event.name == ".to" and (said := _said(event)):
                    kind = said
                elif event.name in (".to", ".type", ".apply") and _unclear(event):
                    return None
        return kind

    def bound(self, value: Value | None) -> tuple[int, Event] | None:
        """(the largest whole number that surely occurs in that tensor, the call that put it there)."""
        for _ in range(20):
            event = self.made(value)
            if event is None:
                return None
            if event.name in SAME or event.name in (".long", ".int"):
                value = event.receiver
                continue
            if event.name == "torch.randint":
                low, high = (event.arg(0), event.arg(1, "high")) if isinstance(event.arg(1), Const) else (None, event.arg(0, "high"))
                many = event.arg(2 if low is not None else 1, "size")
                if isinstance(high, Const) and type(high.value) is int and isinstance(many, Items):
                    return high.value - 1, event
                return None
            if event.name in ("torch.tensor", "torch.LongTensor", "torch.as_tensor"):
                largest = _largest(event.arg(0, "data"))
                return (largest, event) if largest is not None else None
            if event.name == "torch.arange":
                ends = [a.value for a in event.args if isinstance(a, Const) and type(a.value) is int]
                return (ends[min(len(ends) - 1, 1)] - 1, event) if ends and len(ends) == len(event.args) and len(ends) < 3 else None
            return None
        return None


def _largest(value: Value | None, depth: int = 0) -> int | None:
    if isinstance(value, Const):
        return value.value if type(value.value) is int else None
    if isinstance(value, Items) and value.keys is None and depth < 4 and value.items:
        found = [_largest(item, depth + 1) for item in value.items]
        return None if None in found else max(n for n in found if n is not None)
    return None


def _said(event: Event) -> str | None:
    """The type that the arguments name."""
    for value in (*event.args, (event.kw or {}).get("dtype")):
        if isinstance(value, Named) and value.name.startswith("torch."):
            word = value.name.removeprefix("torch.")
            return _WORDS.get(word, word)
    return None


def _unclear(event: Event) -> bool:
    """Whether an argument may be a type that nobody knows."""
    values = [*event.args, *(event.kw or {}).values()]
    return event.stars or any(isinstance(v, Unknown | Tensor) and "device" not in getattr(v, "hint", "") for v in values)
