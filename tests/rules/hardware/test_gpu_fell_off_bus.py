# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus.",
        "Unable to determine the device handle for GPU 0000:03:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "WARN: NVML: can't get GPU #0, error code 15",
        "08:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2684] (rev ff)\n"
        "\t!!! Unknown header type 7f",
        "kernel: NVRM: osInitNvMapping: *** Cannot attach gpu\n"
        "kernel: NVRM: GPU 0000:09:00.0: RmInitAdapter failed! (0x22:0x56:894)",
        "nvidia 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["gpu-fell-off-bus"]


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:03:00): 31, pid=1, name=python, MMU Fault",
        "no Xid 79 in the log",
        "GPU does not have the necessary power cables connected. Xid 54",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "gpu-fell-off-bus" not in slugs(text)


@pytest.mark.parametrize(
    ("text", "variant", "xid"),
    [
        ("NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus.", "", True),
        ("pcieport 0000:00:01.0: AER: Corrected error received\nNVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus.", "link", True),
        ("Unable to determine the device handle for GPU 0000:03:00.0: GPU is lost.  Reboot the system to recover this GPU", "lost", False),
        ("WARN: NVML: can't get GPU #0, error code 15", "lost", False),
        ("08:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2684] (rev ff)", "lost", False),
    ],
)
def test_an_xid_is_told_only_where_it_was_seen(text: str, variant: str, xid: bool) -> None:
    first = explain(text).findings[0]
    assert (first.slug, first.variant) == ("gpu-fell-off-bus", variant)
    assert [("Xid 79" in first.text(lang).title) for lang in ("en", "zh")] == [xid, xid]


def test_the_link_that_went_down_by_surprise_is_quoted() -> None:
    port = "pcieport 0000:00:02.0: AER: Uncorrected (Fatal) error received: id=0010\npcieport 0000:00:02.0:    [ 5] Surprise Down Error    (First)\n"
    first = explain(port + "NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.").findings[0]
    assert any("Surprise Down" in ref.quote for ref in first.refs)
