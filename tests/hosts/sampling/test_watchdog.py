"""Which call does not return."""

import time
from typing import Any

import pytest

from ongpu.hosts.sampling import watchdog
from ongpu.hosts.sampling.watchdog import Watchdog


def test_late_calls_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(watchdog, "say", lambda **line: said.append(line))
    dog = Watchdog(2.0)
    idle, quick, slow, patient = dog.place(), dog.place(), dog.place(), dog.place(15.0)
    now = time.monotonic()
    for place, since in ((quick, now - 1.9), (slow, now - 2.5), (patient, now - 2.5)):
        place.index, place.call, place.since = 3, "nvmlDeviceGetTemperature", since
    dog.answer()
    assert [(line["k"], line.get("i"), line.get("call"), line.get("for")) for line in said] == [
        ("hung", 3, "nvmlDeviceGetTemperature", 2.5)
    ]
    dog.answer()
    assert said[-1]["k"] == "busy"
    assert not dog.look()
    assert len(said) == 2
    patient.since = now - 15
    assert dog.look()
    assert idle.since is None


def test_a_call_that_fails_is_left() -> None:
    place = Watchdog(2.0).place()
    assert place.ask(1, "f", lambda a: a + 1, 2) == 3
    assert place.since is None
    with pytest.raises(ZeroDivisionError):
        place.ask(None, "f", lambda: 1 // 0)
    assert place.since is None
