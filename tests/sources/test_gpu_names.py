from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.hardware import Gpus
from ongpu.model import Evidence
from ongpu.sources import gpu_names


def read(text: str) -> Gpus | None:
    return next(iter(gpu_names.read(Evidence("pasted", text, "test"))), None)  # type: ignore[return-value]


def test_names_and_capabilities() -> None:
    found = read("GPU: RTX 2060, driver 441\nthe other machine has 2 x Tesla V100")
    assert found is not None
    assert found.names == ("RTX 2060", "Tesla V100")
    assert dict(found.capabilities) == {"RTX 2060": "7.5", "Tesla V100": "7.0"}
    assert [ref.line for ref in found.refs] == [1, 2]
    assert read("no card is named here") is None


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_no_text_makes_it_crash(text: str) -> None:
    list(gpu_names.read(Evidence("pasted", text, "test")))
