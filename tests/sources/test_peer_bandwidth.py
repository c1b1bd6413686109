from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.hardware import PeerBandwidth
from ongpu.model import Evidence
from ongpu.sources import peer_bandwidth

TEXT = """\
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 673.20  13.15
     1  12.99 673.20
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 673.49   2.60
     1   2.12 672.33
"""


def test_matrices() -> None:
    (fact,) = peer_bandwidth.read(Evidence("pasted", TEXT, "test"))
    assert isinstance(fact, PeerBandwidth)
    assert (fact.without, fact.direct) == ((13.15, 12.99), (2.6, 2.12))


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(TEXT.split("\n")), max_size=12).map("\n".join))
def test_no_text_makes_it_crash(text: str) -> None:
    list(peer_bandwidth.read(Evidence("pasted", text, "test")))
