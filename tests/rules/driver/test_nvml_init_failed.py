import json

import pytest

from ongpu.engine import diagnose
from ongpu.model import Evidence, Severity


def slugs(error: str, code: int) -> list[str]:
    report = diagnose([Evidence("nvml", json.dumps({"init": error, "code": code}), "NVML")], "test")
    return [finding.slug for finding in report.findings if finding.weight > Severity.NOTE]


@pytest.mark.parametrize(
    ("error", "code"), [("Timeout", 10), ("Insufficient Memory", 20), ("Function Not Found", 13), ("Uninitialized", 1)]
)
def test_found(error: str, code: int) -> None:
    assert slugs(error, code) == ["nvml-init-failed"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("Driver Not Loaded", 9), ("RM has detected an NVML/RM version mismatch.", 18), ("NVML Shared Library Not Found", 12),
        ("Insufficient Permissions", 4), ("Unknown Error", 999), ("The operating system has blocked the request.", 17),
    ],
)  # fmt: skip
def test_neighbours_are_not_it(error: str, code: int) -> None:
    assert "nvml-init-failed" not in slugs(error, code)


def test_an_nvml_that_starts() -> None:
    assert "nvml-init-failed" not in slugs("ok", 0)
