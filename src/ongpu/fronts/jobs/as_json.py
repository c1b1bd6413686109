"""The jobs as JSON: what is known of each, with the engine's words; environments are left out, for they hold secrets."""

import json
import time
from typing import TYPE_CHECKING, Any

from ongpu.lazy import field_names, replace
from ongpu.queue import words
from ongpu.queue.job import HELD, OVER, WAITING, Listing, Told

if TYPE_CHECKING:
    from ongpu.queue.config import Config
    from ongpu.queue.engines import Engine

MOST = 50  # jobs, from the first of the list, of which it is reckoned when they start


def job(told: Told) -> dict[str, Any]:
    """One job; what is not told is left out."""
    from ongpu.queue.asked import to_json

    found: dict[str, Any] = {"asked": to_json(replace(told.spec, environ={}, script=""))}
    for name in field_names(Told):
        value = getattr(told, name)
        if name not in ("spec", "more") and value not in (None, "", ()):
            found[name] = list(value) if isinstance(value, tuple) else value
    if said := (words.because(told, "en"), words.because(told, "zh")):
        found |= {"said": said[0], "said_zh": said[1]} if said[0] else {}
    return found


def render(listing: Listing, engine: "Engine | None" = None, config: "Config | None" = None, cost: bool = False) -> str:
    """The whole listing. engine: asked why each waits, and when it may start. config: with `cost`, its prices."""
    jobs, ahead = [], None
    if engine is not None:
        from ongpu.fronts.jobs.when import Forecasts

        ahead = Forecasts.of(engine)
    for number, told in enumerate(listing.jobs):
        one = job(told)
        if engine is not None and told.state not in OVER:
            one["why"] = [{"en": english, "zh": chinese} for english, chinese in engine.why(told)]
            if ahead and told.state in (WAITING, HELD) and number < MOST:
                expected = ahead.ask(told)
                one["expected"] = {"kind": expected.kind, "at": expected.at, "rests": dict(expected.rests), "jobs": list(expected.jobs)}
        if (look := getattr(engine, "undelivered", None)) is not None and (undelivered := look(told.id)):
            one["undelivered"] = undelivered
        if config is not None and cost:
            from ongpu.fronts.jobs.cost import figures

            one |= figures(told, listing, config)
        jobs.append(one)
    gpus = [{name: value for name in field_names(card) if (value := getattr(card, name)) not in (None, "", ())} for card in listing.cards]
    found = {"schema": 1, "time": round(time.time(), 3), "counts": dict(listing.counts), "gpus": gpus, "jobs": jobs}
    if listing.warning:
        found["warning"] = {"en": listing.warning[0], "zh": listing.warning[1]}
    return json.dumps(found, ensure_ascii=False, indent=2)
