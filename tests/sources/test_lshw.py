from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.hardware import Pci
from ongpu.model import Evidence
from ongpu.sources.lshw import read

TEXT = (
    "  *-display\n       description: VGA compatible controller\n       product: Renoir\n"
    "       vendor: Advanced Micro Devices, Inc. [AMD/ATI]\n"
    "       configuration: driver=amdgpu latency=0\n"
)


def test_the_display_is_read() -> None:
    pci = next(f for f in read(Evidence("pasted", TEXT, "p", "sudo lshw -C display")) if isinstance(f, Pci))
    assert pci.complete
    assert pci.devices[0].driver == "amdgpu"
    assert not pci.nvidia()


@settings(max_examples=60, derandomize=True)
@given(st.text(max_size=300))
def test_no_text_crashes(text: str) -> None:
    list(read(Evidence("pasted", "  *-display\n" + text, "p")))
