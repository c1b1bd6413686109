import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.knowledge import cards, gpus
from ongpu.knowledge._tables import rows, table

GIB = 1 << 30


@pytest.mark.parametrize(
    ("name", "mib", "capability"),
    [
        ("A100 40GB", 40326, (8, 0)),
        ("A100-SXM4-80GB", 81051, (8, 0)),
        ("RTX 4090", 24207, (8, 9)),
        ("NVIDIA GeForce RTX 3090", 24259, (8, 6)),
        ("NVIDIA H100 80GB HBM3", 81079, (9, 0)),
        ("T4", 15102, (7, 5)),
        ("V100 16GB", 16151, (7, 0)),
    ],
)
def test_memory_is_what_cuda_reports(name: str, mib: int, capability: tuple[int, int]) -> None:
    card = cards.card(name)
    assert (card.total, card.capability, card.measured) == (mib << 20, capability, True)


def test_a_card_without_a_figure_is_less_than_its_nominal_size_and_says_so() -> None:
    card = cards.card("GeForce GTX 1080 Ti")
    assert 10.5 * GIB < card.total < 11 * GIB
    assert not card.measured


def test_a_name_of_several_sizes_is_refused_with_the_choices() -> None:
    with pytest.raises(cards.NoSuchCard) as error:
        cards.card("A100")
    assert error.value.choices == ("A100 40GB", "A100 80GB")
    assert [cards.card(choice).total for choice in error.value.choices] == sorted(cards.card(c).total for c in error.value.choices)


@pytest.mark.parametrize("name", ["", "MI300X", "RTX 9999", "card"])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(cards.NoSuchCard) as error:
        cards.card(name)
    assert error.value.choices == ()


def test_a_named_card_with_another_memory() -> None:
    card = cards.with_memory("H100", 10 * GIB)
    assert (card.total, card.capability) == (10 * GIB, (9, 0))


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GiB", 24 * GIB), ("24 GB", 24 * GIB), ("24", 24 * GIB), ("24576MiB", 24 * GIB), ("1.5g", 3 * GIB // 2), ("500B", 500)],
)
def test_sizes(text: str, size: int) -> None:
    assert cards.memory(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-3GiB", "0", "1e9", "24 bananas", "9" * 50])
def test_what_is_no_size(text: str) -> None:
    assert cards.memory(text) is None


@given(st.text(max_size=30))
def test_any_text_is_a_size_or_none(text: str) -> None:
    size = cards.memory(text)
    assert size is None or size > 0


@given(st.integers(1, 200 * GIB))
def test_the_smallest_card_holds_it_and_no_smaller_one_does(need: int) -> None:
    card = cards.smallest(need)
    assert all(other.total < need for other in cards.common() if card is None or other.total < card.total)
    assert card is None or card.total >= need


def test_every_row_is_a_model_with_less_than_its_nominal_memory() -> None:
    by_name = {model.name: model for model in gpus.models()}
    for name, mib, *_ in rows(table("cards")["cards"]["rows"], "|"):
        nominal = by_name[name].memory_gib
        assert nominal is not None
        assert 0.88 * nominal < int(mib) / 1024 < 1.01 * nominal, name


@pytest.mark.parametrize(("name", "wanted"), [("RTX 4095", "GeForce RTX 4090"), ("a10g ", "A10G")])
def test_names_that_are_written_alike(name: str, wanted: str) -> None:
    assert wanted in cards.near(name)
    assert len(cards.near("no card at all")) == 3
