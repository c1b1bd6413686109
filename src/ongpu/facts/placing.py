"""How a script writes the move of its model, so that the move of anything else can be told in the same words."""

import ast
from collections.abc import Iterator, Sequence

from ongpu.facts.program import Event, Script, distinct
from ongpu.facts.source_text import File
from ongpu.facts.values import CPU, CUDA, MAYBE, Device, Module, Move, Named, Tensor, Unknown, Value, may_be_gpu


def move_of(model: Module, call: Event, script: Script) -> str:
    """What stands behind a tensor to bring it to that model: ".cuda()", ".to(device)", in names that hold where the call stands."""
    last = next((m for m in reversed(model.moved(call)) if may_be_gpu(m.device.where)), None)
    bound = _bound(call, script)
    words = _written(last.event) if last else ""
    if last and words and _names(words) <= (bound if _one_object(last, call) else bound - {"self"}):
        return words
    if last and (words := _beside(call, script, last)):
        return words
    if last and last.device.where == CUDA and not last.device.ranked:
        return '.to("cuda")' if last.device.index is None else f'.to("cuda:{last.device.index}")'
    if "device" not in bound and call.kind == "call" and isinstance(call.receiver, Module):
        return f".to(next({call.file.quote(call.call.func)}.parameters()).device)"
    return ".to(device)"


def _beside(call: Event, script: Script, last: Move) -> str:
    """As another tensor is moved to such a place in the same function."""
    for event in script.calls(".to", ".cuda"):
        near = event.file is call.file and event.at.frame.function is call.at.frame.function and isinstance(event.receiver, Tensor)
        given = event.arg(0, "device")
        card = given.index if isinstance(given, Device) else None
        if near and isinstance(event.value, Tensor) and event.value.where == last.device.where and card == last.device.index:
            return _written(event)
    return ""


def place_of(move: str) -> str:
    """The device of such a move, as it is written: "cuda", "device", "args.device"."""
    inside = move.partition("(")[2][:-1].strip("\"'")
    return "cuda" if move.startswith(".cuda") or inside.startswith("next(") else inside


def moved_words(file: File, nodes: Sequence[ast.expr], move: str) -> str:
    """The statement that moves these, kept under their own names: "x, y = x.to(device), y.to(device)"."""
    words = [file.quote(node) for node in nodes]
    if all(isinstance(node, ast.Name) for node in nodes):
        return f"{', '.join(words)} = {', '.join(word + move for word in words)}"
    pairs = zip(nodes, words, strict=True)
    return "; ".join(f"{word} = {word}{move}" if _named(node) else _behind(node, word) + move for node, word in pairs)


def _named(node: ast.expr) -> bool:
    """Whether it can be assigned to: a name, an attribute, an item of a dictionary."""
    key = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
    return key or isinstance(node, ast.Name | ast.Attribute)


def _behind(node: ast.expr, word: str) -> str:
    return word if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call) else f"({word})"


def _written(event: Event) -> str:
    """The move's own words; "" where it is no plain move, or more than a device was asked for in a way that cannot be taken apart."""
    if event.kind != "call" or not isinstance(event.node, ast.Call):
        return ""
    if event.name in (".to", ".cuda"):
        node = None if isinstance(event.arg(0, "device"), Named) else event.given(0, "device")
        return f"{event.name}({event.file.quote(node)})" if node is not None else ".cuda()" if event.name == ".cuda" else ""
    node = event.given(None, "device")
    return f".to({event.file.quote(node)})" if node is not None else ""


def _one_object(move: Move, call: Event) -> bool:
    return move.event.at.frame.me is call.at.frame.me


def _names(words: str) -> set[str]:
    """The names that these words need."""
    try:
        tree = ast.parse(f"x{words}", mode="eval")
    except SyntaxError:  # cut short
        return {"?"}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {"x"}


def _bound(call: Event, script: Script) -> set[str]:
    """The names that hold where the call stands: of its function, and of its file."""
    try:
        tree = script.tree if call.file is script.file else ast.parse(call.file.text)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    function = call.at.frame.function.node if call.at.frame.function else None
    found = {name for node in _outside_functions(tree) for name in _binds(node)}
    return found | ({name for node in ast.walk(function) for name in _binds(node)} if function is not None else set())


def _outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            todo += ast.iter_child_nodes(node)


def _binds(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).partition(".")[0]


# What transformers' tokenizers and processors give, by name: tensors, where return_tensors asked for some.
ENCODED = frozenset({
    "input_ids", "attention_mask", "token_type_ids", "position_ids", "decoder_input_ids", "decoder_attention_mask", "labels",
    "pixel_values", "pixel_mask", "input_values", "input_features",
})  # fmt: skip


def thrown_away(script: Script) -> Iterator[Event]:
    """Moves of tensors whose result nobody takes: .to(device) as a statement. Of values that nobody knows those that must be tensors:
    the parts of an encoded text, a batch's entry by its name, what tokenizer.encode(..., return_tensors=...) gave."""
    for call in distinct(script.calls(".to", ".cuda", ".cpu", ".half", ".float", ".double", ".bfloat16")):
        base = call.receiver
        func = call.call.func
        if not call.discarded or not isinstance(func, ast.Attribute):
            continue
        if isinstance(base, Tensor):
            # A batch in one piece may be an object that moves itself: transformers' BatchEncoding, a graph of PyG. A tensor without a
            # name is made to start CUDA or to be measured.
            whole = base.origin == "batch" and not base.parents
            if not isinstance(func.value, ast.Call) and not whole:
                yield call
        elif isinstance(base, Unknown) and call.name in (".to", ".cuda") and _surely(script, call, base, func.value):
            yield call


def _surely(script: Script, call: Event, base: Unknown, node: ast.expr) -> bool:
    """Whether a value that nobody knows must be a tensor."""
    return base.hint.strip("[]") in ENCODED or _entry(call, node) or _encoded(script, base) or _piece(call, node)


OF_TENSORS = ("to", "cuda", "size", "shape", "float", "long", "view", "numel", "dim")


def _piece(call: Event, node: ast.expr) -> bool:
    """Whether it is a part of a batch that a training loop takes apart (for i, (x, y) in enumerate(loader)), and is given on as it is:
    an encoding or a graph, which move in place, would be unpacked or asked for what it holds."""
    around, loop = call.loop, call.loop.node if call.loop is not None else None
    if around is None or not isinstance(loop, ast.For) or not (around.trains or around.evaluates or _steps(loop)):
        return False
    parts = [n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)]
    counted = isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "enumerate"
    if not isinstance(node, ast.Name) or len(parts) < 2 + counted or node.id not in parts:
        return False
    given = False
    for inner in ast.walk(loop):
        held = isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant) and isinstance(inner.slice.value, str)
        asked = isinstance(inner, ast.Attribute) and inner.attr not in OF_TENSORS
        spread = isinstance(inner, ast.keyword) and inner.arg is None
        if (held or asked or spread) and isinstance(inner.value, ast.Name) and inner.value.id == node.id:  # type: ignore[attr-defined]
            return False
        given = given or (isinstance(inner, ast.Call) and any(isinstance(a, ast.Name) and a.id == node.id for a in inner.args))
    return given


def _steps(loop: ast.For) -> bool:
    """Whether it calls backward() and step(), on whatever."""
    called = {n.func.attr for n in ast.walk(loop) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)}
    return {"backward", "step"} <= called


def _entry(call: Event, node: ast.expr) -> bool:
    """Whether it is batch["name"] of the batch that a loop with a forward pass takes."""
    named = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
    if not named or not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name) or call.loop is None:
        return False
    return node.value.id in call.loop.targets and (call.loop.trains or call.loop.evaluates)


def _encoded(script: Script, value: Value) -> bool:
    return any(made.value is value and "return_tensors" in (made.kw or {}) for made in script.calls(".encode"))


def stale(script: Script) -> Iterator[tuple[Event, Tensor, Event]]:
    """Where a tensor on the CPU meets the GPU although it was moved: (where they meet, the old tensor, the move whose result was kept)."""
    for mix in distinct(script.of("mix")):
        for old in mix.args:
            left = isinstance(old, Tensor) and old.where == CPU and not old.scalar and not _back(script, old)
            if left and isinstance(old, Tensor) and (move := moved_copy(script, old, mix)):
                yield mix, old, move
                break


def _back(script: Script, tensor: Tensor) -> bool:
    """Whether it is what a move to the CPU gave: brought back, not left behind."""
    return any(move.value is tensor for move in script.calls(".to", ".cpu"))


def moved_copy(script: Script, tensor: Tensor, before: Event) -> Event | None:
    """The earlier call that moved this very tensor to CUDA and whose result was kept: the tensor itself is then the old, unmoved one."""
    for move in script.calls(".to", ".cuda"):
        old, new = move.receiver, move.value
        if not (isinstance(old, Tensor) and isinstance(new, Tensor) and new.where in (CUDA, MAYBE)) or move.discarded:
            continue
        alike = old.origin == tensor.origin == "made" and old.made is tensor.made  # `x if c else None` is a value of its own
        same = old is tensor or alike
        if same and move.before(before) and move.flow == before.flow:
            return move
    return None
