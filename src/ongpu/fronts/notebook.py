"""`ongpu.check(model, batch, optimizer)` and `%load_ext ongpu`: the answer where the objects live."""

import sys
from importlib import import_module
from typing import Any

from ongpu.engine import all_rules, diagnose
from ongpu.facts.objects import Objects
from ongpu.fronts.answer import language
from ongpu.model import Evidence, Finding, Report, Rule, Unread, Verdict

ORIGIN = "live objects"


class Checked:
    """What `ongpu.check` found. True where all is clear; neither true nor a finding where nothing can be told (`verdict`)."""

    def __init__(self, report: Report, lang: str) -> None:
        self.report, self.lang = report, lang

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The causes, the worst first."""
        return self.report.findings

    @property
    def verdict(self) -> Verdict:
        """FOUND, CLEAR, UNKNOWN or CRASHED."""
        return self.report.verdict

    @property
    def objects(self) -> Objects | None:
        """Where everything sits, as a fact."""
        return self.report.fact(Objects)

    def __bool__(self) -> bool:
        return self.report.verdict is Verdict.CLEAR

    def __repr__(self) -> str:
        from ongpu.report import as_objects

        return as_objects.text(self.report, self.lang)

    def _repr_html_(self) -> str:
        from ongpu.report import as_objects

        return as_objects.html(self.report, self.lang)


def rules() -> tuple[Rule, ...]:
    """The rules that judge live objects."""
    return tuple(rule for rule in all_rules() if any(Objects in getattr(a, "__args__", (a,)) for a in rule.check.__annotations__.values()))


def check(model: object, batch: object = None, optimizer: object = None, *, lang: str | None = None) -> Checked:
    """Look at live objects. Never raises: where ongpu itself fails, the verdict is CRASHED and `report.unread` says why."""
    lang = lang or language()
    try:
        from ongpu.hosts.redact import Redactor
        from ongpu.probes import objects

        evidence = Redactor().evidence(Evidence("objects", objects.describe(model, batch, optimizer), ORIGIN))
        return Checked(diagnose([evidence], "check", rules()), lang)
    except Exception as error:
        because = f"{type(error).__name__}: {str(error)[:200]}"
        return Checked(Report(subject="check", verdict=Verdict.CRASHED, unread=(Unread("ongpu.check", because),)), lang)


class Listener:
    """Hears of each cell. `%run` shows the traceback itself and swallows the exception: there sys.last_value tells of it."""

    def __init__(self) -> None:
        self.last: object = getattr(sys, "last_value", None)

    def before(self, info: object = None) -> None:
        """Before a cell: what was raised last."""
        self.last = getattr(sys, "last_value", None)

    def after(self, result: object = None) -> None:
        """Below the traceback of a cell that failed: the diagnosis, where the exception is about GPUs."""
        error = getattr(result, "error_in_exec", None)
        if error is None and getattr(sys, "last_value", None) is not self.last:
            error = sys.last_value
        if not isinstance(error, Exception):
            return
        from ongpu.fronts.failure import told

        found = told(error)
        try:
            if isinstance(found, str):
                print(found)
            elif found is not None:
                import_module("IPython.display").display(found)
        except Exception as fault:
            print(f"ongpu: the diagnosis could not be shown: {type(fault).__name__}")


EVENTS = (("pre_run_cell", "before"), ("post_run_cell", "after"))


def load(ipython: Any) -> None:
    """Listen to IPython; its own display of tracebacks, and what others added to it, stay as they are."""
    unload(ipython)
    listener = Listener()
    for event, method in EVENTS:
        ipython.events.register(event, getattr(listener, method))


def unload(ipython: Any) -> None:
    """Listen no longer."""
    for event, _ in EVENTS:
        for callback in list(ipython.events.callbacks.get(event, ())):
            if isinstance(getattr(callback, "__self__", None), Listener):
                ipython.events.unregister(event, callback)
