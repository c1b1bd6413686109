"""How many parameters a program's own module has at least, from the sizes that its source gives to its layers."""

import ast
import math

from ongpu.facts.program import Event, Loop, Script
from ongpu.facts.values import Class, Const, Items, Module, Value


def parameters(script: Script, model: Module) -> int:
    """At least so many: layers of unknown size, and those behind conditions, count nothing. Shapes as torch.nn documents them."""
    begin = model.made.at if model.made else None
    tied = {id(e.receiver) for e in script.of("setattr") if e.name == "weight" and isinstance(e.receiver, Module)}
    total = 0
    for made in script.calls("torch.nn.*"):
        layer = made.value
        if not isinstance(layer, Module) or layer.root is not model.root or id(layer) in tied:
            continue
        if any(g.kind != "main" for g in made.at.guards if begin is None or g not in begin.guards):
            continue
        turns = [_turns(script, loop, made) for loop in made.at.loops if begin is None or loop not in begin.loops]
        total += size(made) * math.prod(turns)
    return total


def size(made: Event) -> int:
    """Weights of that one layer; 0 where a size is unknown."""
    name = made.name.removeprefix("torch.nn.")
    if name == "Linear":
        return _product(made, (0, "in_features"), (1, "out_features"))
    if name == "Embedding":
        return _product(made, (0, "num_embeddings"), (1, "embedding_dim"))
    if name in ("Conv1d", "Conv2d", "Conv3d"):
        groups = made.arg(6, "groups")
        kernel = _kernel(made.arg(2, "kernel_size"), int(name[4]))
        return _product(made, (0, "in_channels"), (1, "out_channels")) * kernel // (_number(groups) or 1 if groups else 1)
    if name == "MultiheadAttention":
        return 4 * _product(made, (0, "embed_dim"), (0, "embed_dim"))
    if name in ("TransformerEncoderLayer", "TransformerDecoderLayer"):
        wide = made.arg(2, "dim_feedforward")
        dim = _number(made.arg(0, "d_model"))
        return (4 if "Encoder" in name else 8) * dim * dim + 2 * dim * (_number(wide) if wide else 2048)
    if name.removesuffix("Cell") in _GATES:
        given, hidden = _number(made.arg(0, "input_size")), _number(made.arg(1, "hidden_size"))
        layers = made.arg(2, "num_layers")
        more = 2 * hidden * hidden * (max(1, _number(layers)) - 1) if layers and not name.endswith("Cell") else 0
        return int(_GATES[name.removesuffix("Cell")] * (hidden * (given + hidden) + more)) if given else 0
    return 0


_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}  # matrices of each kind in a recurrent layer


def arrays(script: Script) -> int | None:
    """How many numbers the arrays hold together that a JAX program makes with shapes that it writes out; None where it makes others, or
    layers of a library."""
    total, found = 0, False
    if script.imports & {"flax", "haiku", "equinox", "transformers"}:
        return None
    for made in script.calls("jax.random.*", "jax.numpy.zeros", "jax.numpy.ones", "jax.numpy.empty", "jax.numpy.full"):
        if made.name in ("jax.random.PRNGKey", "jax.random.key", "jax.random.split", "jax.random.fold_in"):
            continue
        shape = next((v for v in (*made.args, *(made.kw or {}).values()) if isinstance(v, Items)), None)
        numbers = [_number(item) for item in shape.items] if shape and not shape.uniform else [0]
        if 0 in numbers:
            return None
        total, found = total + math.prod(numbers), True
    return total if found else None


def known(script: Script, model: Module) -> bool:
    """Whether all parts of it are layers of known size, or weigh nothing."""
    for made in script.calls():
        part = made.value
        mine = isinstance(part, Module) and made.name != "forward" and part.root is model.root and part is not model
        if mine and isinstance(part, Module) and not isinstance(part.cls, Class):
            light = made.name.endswith(("ModuleList", "ModuleDict", "Sequential")) or "Norm" in made.name or not part.weighs
            if not light and not size(made):
                return False
    return True


def _product(made: Event, *places: tuple[int, str]) -> int:
    return math.prod(_number(made.arg(*place)) for place in places)


def _number(value: Value | None) -> int:
    return int(value.value) if isinstance(value, Const) and type(value.value) in (int, float) and 0 < value.value < 1e9 else 0


def _kernel(value: Value | None, dimensions: int) -> int:
    if isinstance(value, Items):
        return math.prod(_number(item) for item in value.items)
    return int(_number(value) ** dimensions)


def _turns(script: Script, loop: Loop, made: Event) -> int:
    """How often the loop runs: range() of a known number, and nothing that the layer's size may come from changes in it; else 1."""
    over = getattr(loop.node, "iter", None)
    call = next((e for e in script.calls("range") if e.node is over and e.order < made.order), None)
    if call is None or any(_changes(node) for node in ast.walk(loop.node) if not isinstance(loop.node, ast.comprehension)):
        return 1
    bounds = [_number(value) if not (isinstance(value, Const) and value.value == 0) else 0 for value in call.args]
    if len(bounds) == 1:
        return max(1, bounds[0])
    return max(1, bounds[1] - bounds[0]) if len(bounds) == 2 else 1


def _changes(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call):
        return isinstance(node.targets[0], ast.Name)
    return isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
