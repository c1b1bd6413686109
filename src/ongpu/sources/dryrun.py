"""The answer of the dry run inside the user's interpreter: JSON -> DryRun. What has the wrong type is left out, not believed."""

import json
import os
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from ongpu.facts.dryrun import DryRun
from ongpu.facts.dryrun_parts import Place, Unreached
from ongpu.lazy import field_names, replace
from ongpu.model import Evidence, Fact, Source

KIND = "dryrun"
MOST_ITEMS, MOST_WORDS = 256, 20_000  # of one list; characters of one text
_INHERITED = ("refs", "conflicts")
_WRONG = object()


def read(evidence: Evidence) -> Iterator[Fact]:
    answer = json.loads(evidence.text)
    if not isinstance(answer, dict) or answer.get("schema") != 1:
        raise ValueError("not an answer of this version's dry run")
    folder = str(answer.get("folder") or "")
    run = _record(DryRun, answer, folder)
    if folder:
        run = replace(run, script=run.script.removeprefix(folder + os.sep))
    yield replace(run, refs=tuple(run.places()) or (evidence.ref(1, f"outcome: {run.outcome}"),))


def _record(kind: type[Any], told: Mapping[str, Any], folder: str) -> Any:
    """A record of that class, from the entries that bear its fields' names ("class" is `class_`)."""
    values = {}
    for name in field_names(kind):
        raw = told.get(name.rstrip("_"))
        if raw is None or name in _INHERITED:
            continue
        value = _value(_annotation(kind, name), raw, folder)
        if value is not _WRONG:
            values[name] = value
    found = kind(**values)
    if isinstance(found, Place | Unreached) and folder and found.file.startswith(folder + os.sep):
        return replace(found, file=found.file[len(folder) + 1 :])
    return found


def _annotation(kind: type[Any], name: str) -> Any:
    return next(cls.__annotations__[name] for cls in kind.__mro__ if name in vars(cls).get("__annotations__", {}))


def _value(wanted: Any, raw: Any, folder: str) -> Any:
    """What is told, as the annotation wants it; _WRONG where it is something else."""
    if isinstance(wanted, UnionType):
        if raw is None:
            return None
        found = (_value(part, raw, folder) for part in get_args(wanted) if part is not NoneType)
        return next((value for value in found if value is not _WRONG), _WRONG)
    origin = get_origin(wanted)
    if origin is tuple:
        if not isinstance(raw, list):
            return _WRONG
        each = get_args(wanted)[0]
        values = (_value(each, item, folder) for item in raw[:MOST_ITEMS])
        return tuple(value for value in values if value is not _WRONG)
    if origin is Mapping:
        if not isinstance(raw, dict):
            return _WRONG
        each = get_args(wanted)[1]
        pairs = ((str(key)[:200], _value(each, item, folder)) for key, item in list(raw.items())[:MOST_ITEMS])
        return {key: value for key, value in pairs if value is not _WRONG}
    if wanted is float:
        return float(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) and abs(raw) < 1e30 else _WRONG
    if wanted is int:
        return raw if isinstance(raw, int) and not isinstance(raw, bool) and abs(raw) < 1 << 62 else _WRONG
    if wanted is str:
        return raw[:MOST_WORDS] if isinstance(raw, str) else _WRONG
    if wanted is bool:
        return raw if isinstance(raw, bool) else _WRONG
    return _record(wanted, raw, folder) if isinstance(raw, dict) else _WRONG


SOURCES = (Source(kind=KIND, read=read, looks_like=lambda evidence: False, gives=(DryRun,)),)
