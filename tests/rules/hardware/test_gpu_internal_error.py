import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:04:00): 62, Internal micro-controller halt",
        "NVRM: Xid (PCI:0000:04:00): 109, pid=1, name=python, Ch 1, errorString CTX SWITCH TIMEOUT",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["gpu-internal-error"]


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:04:00): 31, pid=1, name=python, MMU Fault",
        "NVRM: Xid (PCI:0000:04:00): 43, pid=1",
        "NVRM: Xid (PCI:0000:04:00): 48, DBE\nNVRM: Xid (PCI:0000:04:00): 62, halt",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "gpu-internal-error" not in slugs(text)
