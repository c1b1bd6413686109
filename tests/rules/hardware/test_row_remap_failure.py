import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:04:00): 64, Row Remapper: failed",
        "        Remapping Failure Occurred        : Yes",
        "NVRM: Xid (PCI:0000:9b:00): 63, Row Remapper: New row marked for remapping, reset gpu to activate.",
        'DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="0"} 1',
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["row-remap-failure"]


@pytest.mark.parametrize(
    "text",
    [
        "        Remapping Failure Occurred        : No\n        Pending                           : No",
        "NVRM: Xid (PCI:0000:04:00): 48, DBE",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "row-remap-failure" not in slugs(text)
