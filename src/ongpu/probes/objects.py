"""Where the user's live PyTorch objects sit, as JSON lines: each parameter, buffer, input and optimizer state.

Reads attributes only: no operation is dispatched, nothing is copied, waited for or drawn at random, no framework is
imported. Classes are known by name, so that nothing of an object's own code is run to find out what it is.
Python 3.8 syntax, standard library and the user's own torch only.

The first line is {"what": "objects", ...}; then a line for each tensor: {"owner", "name", "device", "dtype", "shape",
"bytes", ...}; owner: "parameter", "buffer", "input", "optimizer" (its state), "plain" (a tensor that is a mere attribute,
or stands in a list or dict), "unregistered" (a parameter that the model does not know of, by the same ways).
"""

import json
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

MAX_ROWS = 20000  # tensors that are told; the others are counted
MAX_DEPTH = 5  # containers in containers
MAX_ITEMS = 5000  # items of one container that are looked at
MAX_NAMES = 200  # names of one list in the first line
_OTHERS = {"keras": "Keras", "tensorflow": "TensorFlow", "jax": "JAX", "jaxlib": "JAX", "flax": "JAX", "paddle": "Paddle", "mxnet": "MXNet"}
_SHARDED = ("FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine")
Row = Dict[str, Any]


def ancestors(value: Any) -> List[Tuple[str, str]]:
    """(package, name) of its class and the classes that this inherits from."""
    return [(str(c.__module__).partition(".")[0], c.__name__) for c in type(value).__mro__]


def is_a(value: Any, name: str, package: str = "torch") -> bool:
    """Whether it is an object of that class, or of one that inherits from it."""
    return (package, name) in ancestors(value)


def attempt(ask: Callable[[], Any], otherwise: Any = None) -> Any:
    """The answer, or `otherwise`: one object that does not answer must not end the look at the others."""
    try:
        return ask()
    except Exception:
        return otherwise


def other_framework(value: Any) -> str:
    """The framework that it belongs to where that is not PyTorch; "" where it is none."""
    return next((_OTHERS[package] for package, _ in ancestors(value) if package in _OTHERS), "")


def tensor_row(value: Any, owner: str, name: str) -> Row:
    """What is told of one tensor. bytes: 0 where its shape is not known yet (a lazy module)."""
    dtype = attempt(lambda: value.dtype)
    shape = attempt(lambda: [int(size) for size in value.shape])
    size = attempt(lambda: dtype.itemsize) or attempt(lambda: int(value.element_size()), 0)
    count = 1 if shape is not None else 0
    for length in shape or ():
        count *= length
    row = {
        "owner": owner, "name": name, "device": str(attempt(lambda: value.device, "?")), "dtype": str(dtype).replace("torch.", ""),
        "shape": shape, "bytes": count * size,
    }  # type: Row
    if attempt(lambda: bool(value.requires_grad), False):
        leaf = attempt(lambda: bool(value.is_leaf), False)
        row["trainable" if leaf else "graph"] = True
        gradient = attempt(lambda: value.grad) if leaf else None
        if gradient is not None:
            row["gradient"] = tensor_row(gradient, "gradient", name)["bytes"]
    return row


class _Look:
    """What was seen so far: rows, and who shares its storage with whom."""

    def __init__(self) -> None:
        self.rows = []  # type: List[Row]
        self.left_off = 0
        self.names = {}  # type: Dict[int, str]  # of parameters and buffers, by identity
        self.trainable = {}  # type: Dict[int, List[int]]  # shapes of the model's own, by identity
        self.unregistered = set()  # type: Set[int]
        self.modules = set()  # type: Set[int]
        self.storages = {}  # type: Dict[Any, str]
        self.unlooked = []  # type: List[Dict[str, str]]
        self.managed = set()  # type: Set[str]
        self.library = False  # whether the module that is looked at is of an installed package

    def add(self, value: Any, owner: str, name: str, **more: Any) -> None:
        if len(self.rows) >= MAX_ROWS:
            self.left_off += 1
            return
        row = tensor_row(value, owner, name)
        row.update(more)
        storage = attempt(lambda: value.untyped_storage()._cdata, id(value))
        if storage in self.storages:
            row["shares"] = self.storages[storage]  # counted once
        self.storages.setdefault(storage, name)
        self.rows.append(row)

    def registered(self, model: Any, prefix: str) -> List[Tuple[str, Any]]:
        """(path, module) of the module and all that it knows of; their parameters and buffers are noted."""
        found = []  # type: List[Tuple[str, Any]]
        waiting = [(prefix, model)]
        while waiting:
            path, module = waiting.pop(0)
            if id(module) in self.modules:
                continue
            self.modules.add(id(module))
            found.append((path, module))
            own = vars(module)
            if "_hf_hook" in own:
                self.managed.add("accelerate")
            for _, name in ancestors(module):
                if name in _SHARDED:
                    self.managed.add("deepspeed" if name == "DeepSpeedEngine" else "fsdp")
                elif name == "LightningModule":
                    self.managed.add("lightning")
            for owner, table in (("parameter", "_parameters"), ("buffer", "_buffers")):
                for name, value in (own.get(table) or {}).items():
                    if value is not None and id(value) not in self.names:
                        full = join(path, name)
                        self.names[id(value)] = full
                        self.add(value, owner, full)
                        if owner == "parameter" and attempt(lambda v=value: v.requires_grad, False):  # type: ignore[misc]
                            self.trainable[id(value)] = attempt(lambda v=value: [int(n) for n in v.shape], [])  # type: ignore[misc]
            waiting += [(join(path, name), child) for name, child in (own.get("_modules") or {}).items() if child is not None]
        return found

    def escaped(self, path: str, module: Any) -> None:
        """Tensors and modules of one module that it does not know of: mere attributes, items of lists and dicts."""
        own = vars(module)
        self.library = in_library(type(module))
        parameters = own.get("_parameters") or {}
        for name, value in list(own.items()):
            if name in ("_parameters", "_buffers", "_modules"):
                continue
            if name + "_g" in parameters or name + "_orig" in parameters:
                continue  # weight norm, spectral norm and pruning compute it anew at each call
            for place, item in leaves(value, join(path, name), self.modules):
                self._stray(place, item, "attribute" if place == join(path, name) else type(value).__name__)

    def _stray(self, name: str, value: Any, held: str) -> None:
        if id(value) in self.names:
            return
        if is_a(value, "Module"):
            hidden = type(value).__name__
            for path, module in self.registered_apart(value, name):
                for parameter, tensor in (vars(module).get("_parameters") or {}).items():
                    if tensor is not None and id(tensor) not in self.names:
                        self.names[id(tensor)] = join(path, parameter)
                        self.unregistered.add(id(tensor))
                        more = {"held": held, "kind": "module", "module": hidden, "within": name, "library": self.library}
                        self.add(tensor, "unregistered", join(path, parameter), **more)
            return
        self.names[id(value)] = name
        kind = "parameter" if is_a(value, "Parameter") else "tensor"
        free = kind == "parameter" or attempt(lambda: value.requires_grad and value.is_leaf, False)
        self.unregistered |= {id(value)} if free else set()
        self.add(value, "unregistered" if free else "plain", name, held=held, kind=kind, library=self.library)

    def registered_apart(self, module: Any, name: str) -> Iterator[Tuple[str, Any]]:
        """The same walk through a module that the model does not know of."""
        waiting = [(name, module)]
        while waiting:
            path, one = waiting.pop(0)
            if id(one) not in self.modules:
                self.modules.add(id(one))
                yield path, one
                waiting += [(join(path, n), child) for n, child in (vars(one).get("_modules") or {}).items() if child is not None]


def in_library(kind: type) -> bool:
    """Whether the class is of an installed package, which looks after its own tensors."""
    file = attempt(lambda: str(sys.modules[kind.__module__].__file__), "").replace("\\", "/")
    return "site-packages/" in file or "dist-packages/" in file


def join(path: str, name: str) -> str:
    """"layers" and "0" are "layers.0"."""
    return "%s.%s" % (path, name) if path else name


def leaves(value: Any, name: str, seen: Optional[Set[int]] = None, depth: int = 0, inside: bool = False) -> Iterator[Tuple[str, Any]]:
    """(name, object) of the tensors, arrays and modules in nested lists, tuples, sets, dicts and dataclasses.

    seen: identities that are not told again. inside: whether plain objects are looked into too (a batch of one's own class).
    """
    if value is None or issubclass(type(value), (str, bytes, int, float, complex, bool, type)):
        return
    if callable(value) and not is_a(value, "Module"):
        return
    if seen is not None and id(value) in seen and is_a(value, "Module"):
        return
    if is_a(value, "Tensor") or is_a(value, "Module") or is_a(value, "ndarray", "numpy") or other_framework(value):
        yield name, value
        return
    if depth >= MAX_DEPTH:
        return
    items = []  # type: List[Tuple[str, Any]]
    packed = is_a(value, "PackedSequence")
    if issubclass(type(value), (list, tuple, set, frozenset)) or is_a(value, "deque", "collections"):
        fields = getattr(type(value), "_fields", None)  # a named tuple
        named = isinstance(fields, tuple) and len(fields) == len(value)
        for index, item in enumerate(value):
            if index >= MAX_ITEMS:
                break
            items.append(("%s.%s" % (name, fields[index]) if named and fields else "%s[%d]" % (name, index), item))
    elif issubclass(type(value), dict):
        items = [("%s[%r]" % (name, key), item) for key, item in list(value.items())[:MAX_ITEMS]]
    elif is_a(value, "UserDict", "collections"):  # Hugging Face's BatchEncoding
        items = [("%s[%r]" % (name, key), item) for key, item in list(vars(value).get("data", {}).items())[:MAX_ITEMS]]
    elif hasattr(type(value), "__dataclass_fields__") or inside:
        items = [(join(name, key), item) for key, item in list(getattr(value, "__dict__", {}).items())[:MAX_ITEMS]]
    for place, item in items:
        if not (packed and place.endswith(".batch_sizes")):  # on the CPU by design
            for found in leaves(item, place, seen, depth + 1, inside):
                yield found


def torch_state() -> Optional[Row]:
    """What PyTorch says of itself and its memory, where the user loaded it; CUDA is not initialised by asking."""
    torch = sys.modules.get("torch")  # type: Any
    if torch is None or not hasattr(torch, "nn"):
        return None
    started = attempt(lambda: bool(torch.cuda.is_initialized()), False)
    state = {
        "version": str(attempt(lambda: torch.__version__, "")), "cuda": attempt(lambda: torch.version.cuda),
        "hip": attempt(lambda: torch.version.hip), "initialized": started, "gpus": _gpus(torch, started),
        "archs": attempt(lambda: torch._C._cuda_getArchFlags().split()), "precision": attempt(torch.get_float32_matmul_precision),
        "autocast": attempt(lambda: bool(torch.is_autocast_enabled("cuda")), attempt(lambda: bool(torch.is_autocast_enabled()))),
        "memory": [],
    }  # type: Row
    for index in range(state["gpus"] or 0) if started else ():
        stats = attempt(lambda i=index: torch.cuda.memory_stats(i), {})  # type: ignore[misc]
        card = attempt(lambda i=index: torch.cuda.get_device_properties(i))  # type: ignore[misc]
        state["memory"].append({
            "device": "cuda:%d" % index, "name": attempt(lambda c=card: str(c.name)),  # type: ignore[misc]
            "total": attempt(lambda c=card: int(c.total_memory)),  # type: ignore[misc]
            "capability": attempt(lambda c=card: [int(c.major), int(c.minor)]),  # type: ignore[misc]
            "allocated": stats.get("allocated_bytes.all.current"), "peak": stats.get("allocated_bytes.all.peak"),
            "reserved": stats.get("reserved_bytes.all.current"),
        })
    return state


def _gpus(torch: Any, started: bool) -> Optional[int]:
    """How many GPUs this process sees; None where only starting CUDA would tell."""
    if attempt(lambda: torch.version.cuda or torch.version.hip) is None:
        return 1 if attempt(lambda: bool(torch.backends.mps.is_available()), False) else 0
    if started:
        return attempt(lambda: int(torch.cuda.device_count()))  # type: ignore[no-any-return]
    count = attempt(lambda: int(torch.cuda._device_count_nvml()), -1)  # asks the driver, starts nothing: a fork stays possible
    return count if count >= 0 else None


def _roots(model: Any, look: _Look) -> List[Tuple[str, Any]]:
    found = []  # type: List[Tuple[str, Any]]
    for name, value in leaves(model, ""):
        if is_a(value, "Module"):
            found.append((name.strip("."), value))
        elif other_framework(value):
            look.unlooked.append({"what": "model", "framework": other_framework(value)})
    return found


def _optimizers(optimizer: Any) -> List[Any]:
    """The optimizers themselves: out of lists and of wrappers such as accelerate's."""
    if isinstance(optimizer, (list, tuple)):
        return [one for item in optimizer[:50] for one in _optimizers(item)]
    if isinstance(optimizer, dict):
        return [one for item in list(optimizer.values())[:50] for one in _optimizers(item)]
    for _ in range(4):
        own = getattr(optimizer, "__dict__", {})
        if "param_groups" in own:
            return [optimizer]
        optimizer = own.get("optimizer")
    return []


def _optimizer(optimizers: List[Any], look: _Look) -> Optional[Row]:
    """Who is held by the optimizers, who is not; the rows of their state."""
    if not optimizers:
        return None
    held = set()  # type: Set[int]
    strangers = []  # type: List[Row]
    for one in optimizers:
        for group in vars(one)["param_groups"]:
            for parameter in group.get("params", ()):
                held.add(id(parameter))
                if id(parameter) not in look.names:
                    strangers.append(tensor_row(parameter, "stranger", "?"))
        for parameter, state in list((vars(one).get("state") or {}).items()):
            name = look.names.get(id(parameter), "?")
            on = str(attempt(lambda p=parameter: p.device, "?"))  # type: ignore[misc]
            for place, value in leaves(state, name):
                if is_a(value, "Tensor"):
                    look.add(value, "optimizer", place, of=on)
    missing = [name for identity, name in look.names.items() if identity in look.trainable and identity not in held]
    shapes = [row["shape"] for row in strangers]
    wanted = [shape for identity, shape in look.trainable.items() if identity not in held]
    return {
        "class": type(optimizers[0]).__name__, "held": len(held), "missing": missing[:MAX_NAMES], "missing_count": len(missing),
        "strangers": len(strangers), "strangers_on": sorted({row["device"] for row in strangers}),
        "also": [name for identity, name in look.names.items() if identity in look.unregistered and identity in held][:MAX_NAMES],
        "twins": sum(shape in shapes for shape in wanted),  # a parameter of that shape is held, and it is another one
        "capturable": any(group.get("capturable") or group.get("fused") for one in optimizers for group in vars(one)["param_groups"]),
    }


def describe(model: Any, batch: Any = None, optimizer: Any = None) -> str:
    """The JSON lines about these objects. Never raises for what an object is."""
    look = _Look()
    roots = _roots(model, look)
    known = [pair for name, root in roots for pair in look.registered(root, name)]
    for path, module in known:
        attempt(lambda p=path, m=module: look.escaped(p, m))  # type: ignore[misc]
    first = roots[0][1] if roots else None
    for name, value in leaves(batch, "batch", inside=True):
        if is_a(value, "Tensor"):
            look.add(value, "input", name)
        elif is_a(value, "ndarray", "numpy"):
            look.add(value, "input", name, device="cpu", array="numpy")
        elif not is_a(value, "Module"):
            look.unlooked.append({"what": name, "framework": other_framework(value)})
    about = attempt(lambda: _optimizer(_optimizers(optimizer), look))
    if optimizer is not None and about is None:
        look.unlooked.append({"what": "optimizer", "framework": other_framework(optimizer) or type(optimizer).__name__})
    if model is not None and not roots and not look.unlooked:
        look.unlooked.append({"what": "model", "framework": type(model).__name__})
    head = {
        "what": "objects", "model": type(first).__name__ if roots else None, "training": attempt(lambda: bool(vars(first)["training"])),
        "managed": sorted(look.managed), "moves_inputs": moves_inputs(first), "optimizer": about, "left_off": look.left_off,
        "unlooked": look.unlooked[:20], "torch": torch_state(),
    }
    return "\n".join(json.dumps(row) for row in [head, *look.rows])


def owners(modules: List[Any], optimizers: List[Any]) -> Row:
    """{device: {"parameter" | "buffer" | "gradient" | "optimizer": bytes}} of these, off the host; what is shared counts once."""
    look = _Look()
    for module in modules:
        look.registered(module, "")
    attempt(lambda: _optimizer([one for item in optimizers for one in _optimizers(item)], look))
    found = {}  # type: Row
    for row in look.rows:
        if not row["device"].startswith("cpu"):
            here = found.setdefault(row["device"], {})
            here[row["owner"]] = here.get(row["owner"], 0) + (0 if "shares" in row else row["bytes"])
            if row.get("gradient"):
                here["gradient"] = here.get("gradient", 0) + row["gradient"]
    return found


def moves_inputs(module: Any) -> bool:
    """Whether its forward moves what it is given: DataParallel, DistributedDataParallel with device_ids, FSDP, accelerate's hooks."""
    if module is None:
        return False
    own = getattr(module, "__dict__", {})
    names = {name for _, name in ancestors(module)}
    return "_hf_hook" in own or "DataParallel" in names or "FullyShardedDataParallel" in names or bool(own.get("device_ids"))
