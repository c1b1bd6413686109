"""What the daemon makes of GPUs that do not say who they are, are gone since before it began, or are slices of others."""

import sys
from typing import Any

import looker
import pytest

from ongpu.queue.engines.local import cards
from ongpu.queue.engines.local.sight import Sight
from ongpu.queue.job import Card

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the engine is for Unix")
SLICE = "MIG-11111111-1111-4111-8111-111111111111"


def sight(*known: int) -> Sight:
    return Sight([Card(id=looker.uuid(number), index=number) for number in known], 1024, 100.0)


def told(*gpus: dict[str, object], **more: Any) -> dict[str, Any]:
    return {"t": 100.0, "at": 99.5, "up": True, "why": None, "gpus": list(gpus), **more}


def test_a_gpu_of_before_our_time_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sight(0, 1)
    for wall in (100.0, 120.0):
        found._take(told(looker.gpu(0), {**looker.gpu(1), "uuid": "gpu:1", "how": "hung", "unfit": "driver-hung"}), wall)
    assert (found.health[looker.uuid(0)].state, found.health[looker.uuid(1)].state) == ("ok", "suspect")
    assert not found.dead(looker.uuid(1))
    found._take(told(looker.gpu(0)), 131.0)
    assert found.dead(looker.uuid(1))
    assert not found.dead(looker.uuid(0))
    assert {card.id for card in found.shown()} == {looker.uuid(0), looker.uuid(1)}, "nothing is kept of one without a name"
    assert found.sampled == 99.5


def test_while_the_driver_is_down_nothing_is_gone() -> None:
    found = sight(0, 1)
    for wall in (100.0, 200.0):
        found._take(told(up=False, why=["driver-hung", "e", "z"]), wall)
    assert {health.state for health in found.health.values()} == {"ok"}


def test_a_fault_under_a_slice_is_its_gpus() -> None:
    found = sight(0)
    found._take(told(looker.gpu(0, partitioned=True, slices=[{"uuid": SLICE, "name": "1g", "memory": 9000}])), 100.0)
    assert found.under([SLICE, "GPU-unknown"])[SLICE]["how"] == "ok"
    assert found.under([SLICE])[SLICE]["uuid"] == SLICE
    found.event(SLICE, cards.Ended(cards.FAULT, "x", "ecc-uncorrectable"), 101.0)
    assert found.health[looker.uuid(0)].slug == "ecc-uncorrectable"
    assert SLICE not in found.health
    assert all(device.fault for device in found.devices({}))
