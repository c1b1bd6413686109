"""What a running `ongpu watch` on this machine knows: its latest state and what it found, which rests on more than two looks."""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ongpu.fronts.top.seen import Limits, view
from ongpu.index import names
from ongpu.model import Certainty, Finding, Layer, Report, Rule, Severity, Text, Verdict
from ongpu.report.top.view import View

FRESH = 5.0  # seconds, or three of its intervals: an agent that wrote nothing for longer does not run
SYSTEM = Path("/var/lib/ongpu/watch.db")  # of the agent that systemd runs; watch/config.py has the same places


def places(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Where a store may be."""
    home = Path(environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser())
    return [path for path in (SYSTEM, home / "ongpu" / "watch.db") if path.exists()]


def kept(paths: list[Path], now: float | None = None) -> View | None:
    """The view of the agent that runs; None where none does, or its store cannot be read."""
    now = time.time() if now is None else now
    for path in paths:
        with suppress(Exception):  # another version's, not ours to read, being made: then we look for ourselves
            from ongpu.store import Store

            with Store(path, readonly=True) as store:
                found = told(store.now() or "{}", now)
            if found:
                return found
    return None


def told(text: str, now: float) -> View | None:
    """The view of an agent's latest state; None where it is too old, or of a simulated node."""
    from ongpu.watch.state import State
    from ongpu.watch.window import LENGTH

    more = json.loads(text)
    state = State.from_json(text)
    written = more.get("written")
    if more.get("demo") or not isinstance(written, (int, float)) or not -1 <= now - written <= max(FRESH, 3 * state.interval):
        return None
    report = Report(subject="watch", verdict=Verdict.FOUND, findings=tuple(_findings(more.get("findings"))))
    limits = Limits()
    for gpu in state.gpus.values():
        limits.look(gpu)
    began = state.started or now
    return view(state, report, limits, now, seconds=min(LENGTH, max(now - began, 0.0)), kept=True)


def _findings(rows: Any) -> list[Finding]:
    """The agent's findings, what is worse first."""
    layers = {name.rpartition(".")[2].replace("_", "-"): name.split(".")[2] for name in names("ongpu.rules")}
    found = [_finding(row, layers) for row in rows or () if isinstance(row, dict)]
    return sorted(found, key=lambda finding: (-finding.weight, -finding.certainty))


def _finding(row: Mapping[str, Any], layers: Mapping[str, str]) -> Finding:
    """As the rules give it; its words are filled already."""
    severity, slug, gpu = Severity[str(row["severity"]).upper()], str(row["slug"]), row.get("gpu")
    texts = [Text(*(_plain(row["words"][lang].get(part)) for part in ("title", "why", "fix"))) for lang in ("en", "zh")]
    layer = Layer[layers.get(slug, "system").upper()]
    rule = Rule(slug=slug, layer=layer, severity=severity, check=lambda: iter(()), en=texts[0], zh=texts[1], see=())
    subject = f"GPU {gpu}" if isinstance(gpu, int) else ""
    return Finding(subject=subject, certainty=Certainty[str(row["certainty"]).upper()], severity=severity, rule=rule)


def _plain(text: object) -> str:
    """A text without placeholders."""
    return str(text or "").replace("{", "{{").replace("}", "}}")
