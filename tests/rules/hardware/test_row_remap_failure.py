import pytest
from asking import explain, slugs


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


def test_an_xid_is_named_only_where_one_was_seen() -> None:
    counted = explain("        Remapping Failure Occurred        : Yes").findings[0]
    assert "Xid" not in counted.text("en").title
    assert "Xid" not in counted.text("zh").title
    assert "(Xid 64)" in explain("NVRM: Xid (PCI:0000:04:00): 64, Row Remapper: failed").findings[0].text("en").title
