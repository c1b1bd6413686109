# ruff: noqa: E501  printed lines stand in one piece
import json

import asking
import pytest

from ongpu.engine import diagnose
from ongpu.model import Evidence, Severity


def slugs(error: str, code: int, **other: object) -> list[tuple[str, str]]:
    healthy = {"gpu": 0, "name": "NVIDIA H200", "memory": {"total": 1 << 37, "used": 0, "free": 1 << 37}, "processes": []}
    system = {"driver": "580.65.06", "cuda": 13000, "count": 2}
    lines = [{"init": "ok"}, system, healthy, {"gpu": 1, "error": error, "reason": code}, {"done": True}]
    report = diagnose([Evidence("nvml", "\n".join(map(json.dumps, lines)), "NVML")], "test")
    return [(f.slug, f.variant) for f in report.findings if f.weight > Severity.NOTE]


@pytest.mark.parametrize(
    ("error", "code", "variant"),
    [
        ("GPU requires restart", 16, "reset"), ("Insufficient External Power", 8, "power"), ("Corrupted infoROM", 14, "inforom"),
        ("Timeout", 10, ""), ("Interrupt Request Issue", 11, ""), ("The operating system has blocked the request.", 17, ""),
    ],
)  # fmt: skip
def test_found(error: str, code: int, variant: str) -> None:
    assert slugs(error, code) == [("gpu-answers-with-error", variant)]


@pytest.mark.parametrize(
    ("error", "code", "slug"),
    [
        ("GPU is lost", 15, "gpu-fell-off-bus"), ("Unknown Error", 999, "gpu-fell-off-bus"),
        ("Insufficient Permissions", 4, "device-permission-denied"),
    ],
)  # fmt: skip
def test_neighbours_are_not_it(error: str, code: int, slug: str) -> None:
    assert {name for name, _ in slugs(error, code)} in ({slug}, set())


def test_a_card_that_the_driver_cannot_start() -> None:
    bare = "NVRM: GPU 0000:13:00.0: RmInitAdapter failed! (0x25:0x65:1589)\nNVRM: GPU 0000:13:00.0: rm_init_adapter failed, device minor number 0"
    told = asking.explain(bare).findings[0]
    assert (told.slug, told.variant, told.values["gpu"]) == ("gpu-answers-with-error", "init", "0000:13:00.0")
    assert asking.slugs("NVRM: GPU 0000:13:00.0: GPU does not have the necessary power cables connected.\n" + bare) == ["power-cable-missing"]
    assert asking.slugs("NVRM: osInitNvMapping: *** Cannot attach gpu\n" + bare) == ["gpu-fell-off-bus"]
