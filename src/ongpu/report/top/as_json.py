"""`ongpu top --once` as JSON: stable (schema 1), whole on every failure; null is what nobody told, never 0."""

import json
from dataclasses import asdict
from typing import Any

from ongpu.facts.sample import COLUMNS
from ongpu.lazy import field_names
from ongpu.model import Report, Verdict
from ongpu.report.as_json import finding_dict
from ongpu.report.top import words
from ongpu.report.top.view import Card, Program, View, in_order, only_user, programs_in_order

_NONE = Report(subject="", verdict=Verdict.UNKNOWN)


def to_dict(view: View, lang: str = "en", *, user: str | None = None, by: str = "index") -> dict[str, Any]:
    """The view as plain data. Units: those of `facts/sample.py`; times are seconds since the epoch."""
    report = view.report or _NONE
    return {
        "schema": 1,
        "up": view.up,
        "reason": view.reason or None,
        "code": view.code,
        "time": view.time,
        "kernel_log": view.log_problem or "read",
        "driver": view.driver,
        "cuda": f"{view.cuda // 1000}.{view.cuda % 1000 // 10}" if view.cuda else None,
        "demo": view.demo,
        "rests_on": {"seconds": round(view.seconds, 3), "history": view.kept},
        "gpus": [_card(card, report, lang, user, by) for card in in_order(view, by)],
        "findings": [finding_dict(finding, report, lang) for finding in view.findings],
    }


def _card(card: Card, report: Report, lang: str, user: str | None, by: str) -> dict[str, Any]:
    return {
        "index": card.index,
        "uuid": card.uuid,
        "name": card.name,
        "bus": card.bus,
        "condition": card.condition,
        "code": card.code,
        "reason": None if card.condition == "ok" else words.condition(card, lang),
        "since": card.since or None,
        "seen": card.seen,
        "values": {column: card.value(column) for column in COLUMNS},
        "held_by": list(card.held()) if card.value("reasons") is not None else None,
        "temp_limit": card.limit,
        "identity": dict(card.identity),
        "not_told": {column: {"code": code, "reason": words.code(code, lang)} for column, code in card.why.items()},
        "xids": None if card.xids is None else {str(code): count for code, count in card.xids.items()},
        "processes": None
        if "processes" in card.why or card.condition != "ok"
        else [_program(p) for p in programs_in_order(tuple(only_user(card, user)), by)],
        "verdicts": [finding_dict(finding, report, lang) for finding in card.findings],
        "no_verdict": asdict(card.unexplained) if card.unexplained and not card.findings else None,
        "faulty": card.faulty(),
    }


def _program(program: Program) -> dict[str, Any]:
    plain = {name: getattr(program, name) for name in field_names(Program) if name != "children"}
    names = ("pid", "name", "cpu", "state")
    return {**plain, "children": [dict(zip(names, child, strict=True)) for child in program.children]}


def render(view: View, lang: str = "en", *, user: str | None = None, by: str = "index") -> str:
    """The view as text; one object."""
    return json.dumps(to_dict(view, lang, user=user, by=by), ensure_ascii=False, indent=1, default=str)
