from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.hardware import Pci
from ongpu.model import Evidence
from ongpu.sources import lspci

NNK = """\
00:02.0 VGA compatible controller [0300]: Intel Corporation UHD Graphics 630 [8086:3e92]
07:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 40GB] [10de:20b0] (rev a1)
\tSubsystem: NVIDIA Corporation Device [10de:134f]
\tKernel driver in use: nvidia
\tKernel modules: nvidiafb, nouveau, nvidia
08:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2684] (rev ff)
\t!!! Unknown header type 7f
09:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2684] (rev a1)
\tRegion 1: Memory at <unassigned> (64-bit, prefetchable) [disabled]
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x4 (downgraded)
\tKernel modules: nvidiafb, nouveau
"""


def pci(text: str, command: str | None = None) -> Pci | None:
    return next(iter(lspci.read(Evidence("pasted", text, "test", command))), None)  # type: ignore[return-value]


def test_devices() -> None:
    found = pci(NNK, "lspci -nnkvv")
    assert found is not None
    assert found.complete is True
    intel, a100, dead, narrow = found.devices
    assert not intel.nvidia
    assert (a100.bus, a100.vendor, a100.device, a100.driver) == ("07:00.0", "10de", "20b0", "nvidia")
    assert a100.modules == ("nvidiafb", "nouveau", "nvidia")
    assert dead.dead
    assert (narrow.no_bar, narrow.driver, narrow.width, narrow.width_max, narrow.speed, narrow.speed_max) == (
        True,
        "",
        4,
        16,
        2.5,
        16,
    )
    assert [d.bus for d in found.nvidia()] == ["07:00.0", "08:00.0", "09:00.0"]


def test_numeric_form() -> None:
    found = pci("0000:01:00.0 0300: 10de:2204 (rev a1)", "lspci -n")
    assert found is not None
    assert (found.devices[0].vendor, found.devices[0].display) == ("10de", True)


def test_what_absence_means() -> None:
    intel = "00:02.0 VGA compatible controller: Intel Corporation UHD Graphics 620 (rev 07)"
    for command, complete in [
        ("lspci", True), ("lspci | grep -i nvidia", True), ('lspci -nnk | grep -A3 -E "VGA|3D"', True), ("lspci | grep VGA", None),
        ("lspci -s 00:02.0", None),
    ]:  # fmt: skip
        found = pci(intel, command)
        assert found is not None
        assert found.complete is complete, command
    empty = pci("$ lspci | grep -i nvidia", "lspci | grep -i nvidia")
    assert empty is not None
    assert (empty.devices, empty.complete) == ((), True)
    assert pci("bash: lspci: command not found", "lspci") is None


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(NNK.split("\n")), max_size=12).map("\n".join)))
def test_no_text_makes_it_crash(text: str) -> None:
    evidence = Evidence("pasted", text, "test", "lspci")
    lspci.looks_like(evidence)
    list(lspci.read(evidence))
