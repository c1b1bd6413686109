"""The JSON lines of probes/objects.py and probes/operands.py: live objects, and the operands of a line that failed."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ongpu.facts.framework import Torch
from ongpu.facts.objects import CardMemory, Held, Objects, Placed
from ongpu.facts.operands import Operand, Operands
from ongpu.model import Evidence, Fact, Ref, Source

MAX_LINES = 25_000


def _rows(evidence: Evidence) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number of the line, object); lines that are none are passed over."""
    for number, line in evidence.lines()[:MAX_LINES]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield number, row


def _text(value: Any, otherwise: str = "") -> str:
    return value if isinstance(value, str) else otherwise


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(n for n in value if isinstance(n, int)) if isinstance(value, list) else None


def _words(row: Mapping[str, Any]) -> str:
    """What a reader sees of a tensor: "mask: cpu, float32 [4, 4]"."""
    shape = _shape(row.get("shape"))
    told = f"{_text(row.get('name'))}: {_text(row.get('device'), '?')}, {_text(row.get('array')) or _text(row.get('dtype'))} {list(shape or ())}"
    more = {"plain": "a mere attribute", "unregistered": "not registered", "buffer": "a buffer", "optimizer": "optimizer state"}
    about = more.get(_text(row.get("owner")), "")
    return f"{told} ({about})" if about else told


def _placed(evidence: Evidence, number: int, row: Mapping[str, Any]) -> Placed:
    return Placed(
        owner=_text(row.get("owner")), name=_text(row.get("name")), device=_text(row.get("device"), "?"), dtype=_text(row.get("dtype")),
        shape=_shape(row.get("shape")), bytes=_number(row.get("bytes")) or 0, gradient=_number(row.get("gradient")) or 0,
        trainable=row.get("trainable") is True, graph=row.get("graph") is True, shares="shares" in row, of=_text(row.get("of")) or None,
        held=_text(row.get("held")), kind=_text(row.get("kind")), module=_text(row.get("module")), within=_text(row.get("within")),
        array=_text(row.get("array")), library=row.get("library") is True, ref=evidence.ref(number, _words(row)),
    )  # fmt: skip


def _held(row: Any, ref: Ref) -> Held | None:
    if not isinstance(row, dict):
        return None
    return Held(
        name=_text(row.get("class")), held=_number(row.get("held")) or 0, missing=tuple(filter(None, map(_text, _list(row.get("missing"))))),
        missing_count=_number(row.get("missing_count")) or 0, strangers=_number(row.get("strangers")) or 0,
        strangers_on=tuple(filter(None, map(_text, _list(row.get("strangers_on"))))), twins=_number(row.get("twins")) or 0,
        also=tuple(filter(None, map(_text, _list(row.get("also"))))), ref=ref,
    )  # fmt: skip


def _memory(torch: Mapping[str, Any]) -> tuple[CardMemory, ...]:
    found = []
    for row in _list(torch.get("memory")):
        if isinstance(row, dict):
            capability = _shape(row.get("capability")) or ()
            found.append(
                CardMemory(
                    device=_text(row.get("device")), name=_text(row.get("name")) or None, total=_number(row.get("total")),
                    capability=(capability[0], capability[1]) if len(capability) == 2 else None,
                    allocated=_number(row.get("allocated")), peak=_number(row.get("peak")), reserved=_number(row.get("reserved")),
                )
            )  # fmt: skip
    return tuple(found)


def _torch(evidence: Evidence, number: int, torch: Mapping[str, Any]) -> Iterator[Torch]:
    """The build that is loaded: what "no kernel image" and "driver too old" are judged from."""
    version, cuda, archs = _text(torch.get("version")), _text(torch.get("cuda")), _list(torch.get("archs"))
    if version and cuda:  # a build without CUDA has other faults than the one that was raised, or says so itself
        quote = f"torch {version}, CUDA {cuda}"
        told = tuple(filter(None, map(_text, archs)))
        yield Torch(version=version, cuda=cuda, archs=told or None, device_count=_number(torch.get("gpus")), refs=(evidence.ref(number, quote, "version"),))


def read(evidence: Evidence) -> Iterable[Fact]:
    """The live objects, or the operands of a failing line; of the latter also the build of PyTorch that is loaded."""
    rows = list(_rows(evidence))
    number, head = next(((n, row) for n, row in rows if "what" in row), (0, {}))
    torch = head.get("torch")
    torch = torch if isinstance(torch, dict) else {}
    if head.get("what") == "objects":
        yield _objects(evidence, number, head, [(n, row) for n, row in rows if "owner" in row], torch)
    elif head.get("what") == "failure":
        yield _operands(evidence, head, [(n, row) for n, row in rows if row.get("owner") == "operand"], torch)
        yield from _torch(evidence, number, torch)


def _by_owner(held: Any) -> tuple[tuple[str, str, int], ...]:
    told = [(d, owners) for d, owners in held.items() if isinstance(owners, dict)] if isinstance(held, dict) else []
    return tuple((d, owner, n) for d, owners in told for owner, n in owners.items() if isinstance(n, int) and n)


def _objects(evidence: Evidence, number: int, head: dict[str, Any], rows: list[tuple[int, dict[str, Any]]], torch: dict[str, Any]) -> Objects:
    about, training, autocast = head.get("optimizer"), head.get("training"), torch.get("autocast")
    kind = _text(about.get("class")) if isinstance(about, dict) else ""
    held = _number(about.get("held")) if isinstance(about, dict) else None
    model = _text(head.get("model")) or None
    words = f"{model or 'no model'}" + (f", {kind} holding {held} parameters" if kind else "")
    unlooked = [row for row in _list(head.get("unlooked")) if isinstance(row, dict)]
    return Objects(
        model=model, training=training if isinstance(training, bool) else None,
        managed=tuple(filter(None, map(_text, _list(head.get("managed"))))), moves_inputs=head.get("moves_inputs") is True,
        placed=tuple(_placed(evidence, n, row) for n, row in rows), optimizer=_held(about, evidence.ref(number, words)),
        left_off=_number(head.get("left_off")) or 0, unlooked=tuple((_text(row.get("what")), _text(row.get("framework"))) for row in unlooked),
        gpus=_number(torch.get("gpus")), autocast=autocast if isinstance(autocast, bool) else None,
        precision=_text(torch.get("precision")) or None, memory=_memory(torch), refs=(evidence.ref(number, words),),
    )  # fmt: skip


def _operands(evidence: Evidence, head: dict[str, Any], rows: list[tuple[int, dict[str, Any]]], torch: dict[str, Any]) -> Operands:
    frames = [row for row in _list(head.get("frames")) if isinstance(row, dict)]
    found = []
    for number, row in rows:
        devices = row.get("devices")
        weights = {d: n for d, n in devices.items() if isinstance(n, int)} if isinstance(devices, dict) else {}
        device = max(weights, key=lambda d: weights[d]) if weights else _text(row.get("device"))
        module = _text(row.get("module"))
        kinds = [kind for kind in map(_text, _list(row.get("dtypes"))) if kind]
        on = f"{', '.join(weights) or 'no device'}" + (f" ({', '.join(kinds)})" if kinds else "")
        words = f"{_text(row.get('name'))}: {module}, weights on {on}" if module else _words(row)
        found.append(
            Operand(
                name=_text(row.get("name")), role=_text(row.get("role")), frame=_number(row.get("frame")) or 0, device=device,
                dtype=_text(row.get("dtype")) or (kinds[0] if len(kinds) == 1 else ""), shape=_shape(row.get("shape")), module=module, registered=row.get("registered") is True,
                listed=row.get("listed") is True, ref=evidence.ref(number, words),
            )
        )  # fmt: skip
    return Operands(
        operands=tuple(found), codes=tuple(_text(row.get("code")) for row in frames),
        functions=tuple(_text(row.get("function")) for row in frames), memory=_memory(torch),
        held=_by_owner(head.get("held")), refs=tuple(o.ref for o in found[:4]),
    )  # fmt: skip


def looks_like(evidence: Evidence) -> bool:
    """Whether it is the first line of one of the two probes."""
    return evidence.text.startswith(('{"what": "objects"', '{"what": "failure"'))


SOURCES = (Source(kind="objects", read=read, looks_like=looks_like, gives=(Objects, Operands, Torch)),)
