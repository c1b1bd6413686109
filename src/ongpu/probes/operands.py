"""What a traceback lacks, as JSON lines: where the tensors and modules of the failing lines sit, and the memory.

Reads attributes only (see objects.py): no value of a tensor is looked at, so nothing waits for the GPU, not even for one
whose last kernel failed. Python 3.8 syntax, standard library and the user's own torch only.

The first line is {"what": "failure", "frames": [...], "torch": ..., "held": {device: {owner: bytes}}}; then a line for each
name in the failing lines of the user's own innermost frames: {"owner": "operand", "name", "role", "frame", "device", ...}.
role: "argument" (of the function), "local", "attribute" (self.x), "global", "module" (with the "devices" of its weights).
"""

import json
import linecache
import os
import re
import sys
from typing import Any, Dict, Iterator, List, Set, Tuple

from .objects import attempt, is_a, leaves, owners, tensor_row, torch_state

MAX_FRAMES = 3  # of the user's own, the innermost
MAX_LINES = 12  # lines of one statement
MAX_NAMES = 40  # names of one statement
MAX_OPERANDS = 200
MAX_LOCALS = 500  # names of one frame
_NAMES = re.compile(r"[A-Za-z_]\w{0,80}(?:\.[A-Za-z_]\w{0,80}|\[\d{1,6}\]|\['[^'\n]{1,80}'\]|\[\"[^\"\n]{1,80}\"\]){0,6}")
_STEP = re.compile(r"\.(\w{1,81})|\[(\d{1,6})\]|\['([^'\n]{0,80})'\]|\[\"([^\"\n]{0,80})\"\]")
_LIBRARY = ("site-packages/", "dist-packages/", "/lib/python", "<frozen", "ongpu/probes/")
_MISSING = object()


def _own(trace: Any) -> List[Tuple[Any, Any]]:
    """(frame, traceback entry) of the user's own code, the innermost first."""
    found = []
    framework = attempt(lambda: os.path.dirname(str(sys.modules["torch"].__file__)).replace("\\", "/") + "/", "\0")
    while trace is not None:
        file = str(trace.tb_frame.f_code.co_filename).replace("\\", "/")
        if not any(part in file for part in (*_LIBRARY, framework)) or "ipykernel_" in file or "<ipython" in file:
            found.append((trace.tb_frame, trace))
        trace = trace.tb_next
    return found[::-1][:MAX_FRAMES]


def _statement(frame: Any, trace: Any) -> str:
    """The source of the call or expression that failed, all its lines; the one line where Python does not tell its end."""
    code, first = frame.f_code, trace.tb_lineno
    last = first
    if hasattr(code, "co_positions"):  # Python 3.11
        for index, (start, end, _, _) in enumerate(code.co_positions()):
            if index == trace.tb_lasti // 2:
                first, last = start or first, end or last
                break
    lines = range(first, min(last, first + MAX_LINES) + 1)
    return " ".join(linecache.getline(code.co_filename, n, frame.f_globals).strip() for n in lines)


def _step(value: Any, name: str, index: str, key: str) -> Any:
    """One step of "a.b[0]['c']" that runs no code of the user's: through __dict__, lists and dicts."""
    own = attempt(lambda: vars(value), {})
    if name:
        if name in own:
            return own[name]
        for table in ("_parameters", "_buffers", "_modules"):
            if name in (own.get(table) or {}):
                return own[table][name]
    elif index:
        if type(value) in (list, tuple):
            return value[int(index)] if int(index) < len(value) else _MISSING
        return (own.get("_modules") or {}).get(index, _MISSING)
    elif issubclass(type(value), dict):
        return dict.get(value, key, _MISSING)
    elif is_a(value, "UserDict", "collections"):
        return own.get("data", {}).get(key, _MISSING)
    return _MISSING


def _resolve(path: str, frame: Any) -> Tuple[str, Any]:
    """(the part of the path that could be followed, the object there)."""
    base = re.split(r"[.\[]", path, maxsplit=1)[0]
    value = frame.f_locals.get(base, _MISSING)
    if value is _MISSING:
        value = frame.f_globals.get(base, _MISSING)
    told = base
    for match in _STEP.finditer(path, len(base)):
        further = _MISSING if value is _MISSING else _step(value, match[1] or "", match[2] or "", match[3] or match[4] or "")
        if further is _MISSING:
            break
        told, value = told + match[0], further
    return told, value


def _role(path: str, frame: Any) -> str:
    base = re.split(r"[.\[]", path, maxsplit=1)[0]
    if path.startswith("self."):
        return "attribute"
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    if base in code.co_varnames[:count]:
        return "argument"
    return "local" if base in frame.f_locals else "global"


def _registered(path: str, frame: Any) -> bool:
    """Whether "self.x" is a parameter or buffer of the module, which .to() moves."""
    name = path[len("self.") :] if path.startswith("self.") else ""
    own = attempt(lambda: vars(frame.f_locals["self"]), {})
    return any(name in (own.get(table) or {}) for table in ("_parameters", "_buffers"))


def _listed(module: Any, frame: Any) -> bool:
    """Whether it stands in a plain list, dict or attribute of the module whose method failed, which does not know of it."""
    owner = frame.f_locals.get("self")
    if owner is None or owner is module or not is_a(owner, "Module"):
        return False
    known: Set[int] = set()
    waiting = [owner]
    while waiting and len(known) < 5000:
        one = waiting.pop()
        if id(one) not in known:
            known.add(id(one))
            waiting += [child for child in (vars(one).get("_modules") or {}).values() if child is not None]
    own = [value for name, value in vars(owner).items() if name not in ("_parameters", "_buffers", "_modules")]
    return id(module) not in known and any(item is module for value in own for _, item in leaves(value, ""))


def _module_row(name: str, module: Any, listed: bool) -> Dict[str, Any]:
    """Where the weights of a module sit: {"devices": {"cuda:0": bytes}}."""
    devices = {}  # type: Dict[str, int]
    dtypes = set()
    waiting = [module]
    seen: Set[int] = set()
    while waiting and len(seen) < 5000:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        own = vars(one)
        for table in ("_parameters", "_buffers"):
            for value in (own.get(table) or {}).values():
                if value is not None:
                    row = tensor_row(value, table, name)
                    devices[row["device"]] = devices.get(row["device"], 0) + row["bytes"]
                    dtypes.add(row["dtype"])
        waiting += [child for child in (own.get("_modules") or {}).values() if child is not None]
    return {"role": "module", "module": type(module).__name__, "devices": devices, "dtypes": sorted(dtypes), "listed": listed}


def _rows(frame: Any, statement: str, place: int) -> Iterator[Dict[str, Any]]:
    told = set()
    for match in list(_NAMES.finditer(statement))[:MAX_NAMES]:
        path, value = _resolve(match[0], frame)
        if value is _MISSING or path in told or path == "self":
            continue
        told.add(path)
        for name, item in leaves(value, path):
            if is_a(item, "Tensor"):
                row = tensor_row(item, "operand", name)
                row["role"] = _role(path, frame)
                row["registered"] = _registered(path, frame)
            elif is_a(item, "Module"):
                row = {"owner": "operand", "name": name, **_module_row(name, item, _listed(item, frame))}
            else:
                continue
            row["frame"] = place
            yield row


def _held(trace: Any) -> Dict[str, Any]:
    """Bytes by device and owner of the modules and optimizers that the frames know by name, or hold in an attribute of self."""
    modules, optimizers = [], []  # type: List[Any], List[Any]
    frames = []  # type: List[Any]
    while trace is not None and len(frames) < 200:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for frame in frames:
        values = list(frame.f_locals.values())[:MAX_LOCALS]
        values += list(attempt(lambda f=frame: vars(f.f_locals["self"]), {}).values())[:MAX_LOCALS]  # type: ignore[misc]
        for value in values:
            if is_a(value, "Module"):
                modules.append(value)
            elif is_a(value, "Optimizer"):
                optimizers.append(value)
    return owners(modules, optimizers)


def describe(trace: Any) -> str:
    """The JSON lines about the exception with this traceback. Never raises for what an object is."""
    frames, rows = [], []  # type: List[Dict[str, Any]], List[Dict[str, Any]]
    for place, (frame, entry) in enumerate(_own(trace)):
        statement = attempt(lambda f=frame, e=entry: _statement(f, e), "")  # type: ignore[misc]
        frames.append({"line": entry.tb_lineno, "function": frame.f_code.co_name, "code": statement})
        rows += attempt(lambda f=frame, s=statement, p=place: list(_rows(f, s, p)), [])  # type: ignore[misc]
    head = {"what": "failure", "frames": frames, "torch": torch_state(), "held": attempt(lambda: _held(trace), {})}
    return "\n".join(json.dumps(row) for row in [head, *rows[:MAX_OPERANDS]])
