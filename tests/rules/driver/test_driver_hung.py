"""driver-hung is told from NVML's silence alone; with its Xid beside it, the event's own rule says it."""

import pytest

from ongpu.engine import diagnose
from ongpu.model import Evidence, Severity

LATE = "timed out after 15 s without an answer"


def slugs(*lines: str, problem: str | None = LATE, log: str = "") -> list[str]:
    evidence = [Evidence("nvml", "\n".join(lines), "NVML", problem=problem)]
    if log:
        evidence.append(Evidence("pasted", log, "dmesg", "dmesg"))
    return [f.slug for f in diagnose(evidence, "test").findings if f.weight > Severity.NOTE]


@pytest.mark.parametrize("lines", [('{"asking": "init"}',), ('{"asking": "init"}', '{"init": "ok"}', '{"asking": 3}')])
def test_found(lines: tuple[str, ...]) -> None:
    assert slugs(*lines) == ["driver-hung"]


def test_not_found() -> None:
    assert slugs('{"asking": "init"}', '{"init": "Driver Not Loaded", "code": 9}', problem=None) == []


def test_its_xid_says_more() -> None:
    log = "[ 4242.1] NVRM: Xid (PCI:0000:1d:00): 119, pid=2110, name=python3, Timeout after 6s of waiting for RPC response from GPU GSP!"
    assert slugs('{"asking": "init"}', log=log) == ["gsp-timeout"]
