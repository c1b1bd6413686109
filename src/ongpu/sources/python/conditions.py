"""Which kind of condition a test is: by its words, since its value is seldom known."""

import ast

_TRAINING = frozenset({"training", "is_train", "train", "phase", "'train", "mode", "is_training", "split"})
_COUNTERS = frozenset({"i", "step", "idx", "batch_idx", "it", "epoch", "global_step", "iteration", "n"})
MAX_NODES = 200


def guard_kind(node: ast.expr) -> str:
    """The kind, as Guard lists them."""
    words: list[str] = []
    absent = False
    todo: list[ast.AST] = [node]
    for part in todo:
        if len(todo) > MAX_NODES:
            break
        kind = type(part)
        if kind is ast.Name:
            words.append(part.id.lower())  # type: ignore[attr-defined]
        elif kind is ast.Attribute:
            words.append(part.attr.lower())  # type: ignore[attr-defined]
            todo.append(part.value)  # type: ignore[attr-defined]
        elif kind is ast.Constant:
            told = part.value  # type: ignore[attr-defined]
            if isinstance(told, str):
                words.append("'" + told.lower())
            elif told is None:
                absent = True
        elif kind is ast.Mod:
            return "every"
        else:
            for name in part._fields:
                inner = getattr(part, name)
                if isinstance(inner, list):
                    todo += [item for item in inner if isinstance(item, ast.AST)]
                elif isinstance(inner, ast.AST):
                    todo.append(inner)
    return _of_words(node, words, absent and isinstance(node, ast.Compare))


def _of_words(node: ast.expr, words: list[str], absent: bool) -> str:
    told = " ".join(words)
    if "__name__" in told:
        return "main"
    if "cuda" in told or "gpu" in told or ("type" in words and "device" in told):
        return "cuda"
    if "rank" in told or "main_process" in told or "is_master" in told or "master_process" in words:
        return "rank"
    if not _TRAINING.isdisjoint(words):
        return "training"
    if absent:
        return "none"
    if any(word in told for word in ("last", "first", "interval", "every", "log", "accum")):
        return "every"
    small = isinstance(node, ast.Compare) and any(isinstance(n, ast.Constant) and n.value in (0, 1) for n in node.comparators)
    return "first" if small and not _COUNTERS.isdisjoint(words) else "other"


def remainder(test: ast.expr) -> bool:
    """Whether the test is true at all but each n-th: "i % n", "i % n != 0"."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.NotEq):
        test = test.left
    return isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod)
