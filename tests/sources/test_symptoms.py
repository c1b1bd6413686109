"""Known error lines: which literals of the table are searched for in a text."""

from hypothesis import given
from hypothesis import strategies as st

from ongpu.knowledge.error_lines import Symptom, table
from ongpu.model import Evidence
from ongpu.sources.symptoms import _candidates, read

LITERALS = [literal for symptom in table() for literal in symptom.literals]


@given(st.text(max_size=60), st.sampled_from(LITERALS), st.text(max_size=60))
def test_no_literal_that_stands_in_a_text_is_passed_over(before: str, literal: str, after: str) -> None:
    text = (before + literal + after).lower()
    symptom = Symptom("some", (literal, "xqj" * 3), None)
    assert _candidates(text)(symptom) == (literal,)


@given(st.text(alphabet="abc ", min_size=1, max_size=12), st.text(alphabet="abc ", max_size=40))
def test_short_and_repeating_literals(literal: str, text: str) -> None:
    assert literal not in text or _candidates(text)(Symptom("some", (literal,), None))


def test_most_literals_are_not_searched_for_in_a_text_of_other_words() -> None:
    text = "the quick brown fox jumps over the lazy dog\n" * 20
    kept = [symptom for symptom in table() if any(len(literal) > 3 for literal in _candidates(text)(symptom))]
    assert len(kept) < len(table()) / 20


def test_words_in_encoded_data_say_nothing_and_the_same_words_beside_it_do() -> None:
    data = "Zm9v" * 900  # longer than what is looked at around a word
    said = "CUDA out of memory"
    assert not list(read(Evidence("pasted", f"{data}{said.replace(' ', '')}outofmemoryerror{data}", "x")))
    assert list(read(Evidence("pasted", f"{data} RuntimeError: {said} {data}", "x")))
    assert list(read(Evidence("pasted", f"{said} {data}", "x")))
