from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.accumulation import AccumulationTable
from ongpu.model import Evidence
from ongpu.sources import accumulation


def read(text: str) -> list[AccumulationTable]:
    return [fact for fact in accumulation.read(Evidence("pasted", text, "p")) if isinstance(fact, AccumulationTable)]


PIECES = ["acc  loss\n", "1  2.0\n", "0  0\n", "grad_acc=2 loss 3\n", "|"]


def test_a_table() -> None:
    fact = read("GPU  per-device bs  gradient acc  initial loss\n4    16    2    6.4\n4    8    4    13.65\n")[0]
    assert (fact.steps, fact.losses) == ((2, 4), (6.4, 13.65))
    assert fact.proportional


def test_lines() -> None:
    fact = read("gradient_accumulation_steps=1 loss 3.11\ngradient_accumulation_steps=2 loss 3.88")[0]
    assert not fact.proportional


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.text(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_no_text_makes_it_crash(text: str) -> None:
    accumulation.looks_like(Evidence("pasted", text, "p")) if hasattr(accumulation, "looks_like") else None
    read(text)
