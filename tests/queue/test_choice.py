"""The choice of GPUs: what holds for any machine and any request, and the cases that people meet."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue.choice import Card, Chosen, Refused, Request, choose, why_not


def card(index: int, **more: object) -> Card:
    told = {"uuid": f"GPU-{index}", "index": index, "name": "A100", "total": 81920, "free": 81000, "util": 0}
    return Card(**{**told, **more})  # type: ignore[arg-type]


def got(cards: list[Card], want: Request) -> list[int]:
    found = choose(cards, want)
    assert isinstance(found, Chosen), found
    return [one.index for one in found.cards]


def refused(cards: list[Card], want: Request) -> Refused:
    found = choose(cards, want)
    assert isinstance(found, Refused)
    return found


def test_the_freest_is_taken() -> None:
    assert got([card(0, free=1000), card(1, free=70000), card(2, free=70000, util=80)], Request()) == [1]


def test_a_card_that_something_unknown_uses_comes_last_whatever_else_speaks_for_it() -> None:
    odd = card(0, unexplained=1025, near=("numa0",))
    assert got([odd, card(1, free=30000, util=80), card(2, unexplained=1024, free=20000)], Request()) == [2]
    assert got([odd, card(1, near=("numa0",)), card(2, near=("numa1",))], Request(2)) == [1, 2]
    assert got([odd, card(1)], Request(2)) == [0, 1], "where nothing else is there, it is given"
    assert got([odd], Request()) == [0]


def test_what_others_compute_on_is_left_alone_however_much_is_free() -> None:
    assert got([card(0, foreign=("pid 7",)), card(1, free=20000)], Request()) == [1]


def test_neighbours_go_before_the_freest_and_like_before_unlike() -> None:
    cards = [card(n, near=(f"numa{n // 2}",)) for n in range(4)]
    cards[0], cards[2] = replace(cards[0], free=5000), replace(cards[2], util=50)
    assert got(cards, Request(2)) in ([0, 1], [2, 3])
    assert got([card(0, name="T4", total=15360), card(1), card(2)], Request(2)) == [1, 2]
    assert got(cards, Request(4)) == [0, 1, 2, 3]


def part(index: int, size: int = 10240, **more: object) -> Card:
    told = {"uuid": f"MIG-{size}", "slice": True, "card": f"GPU-{index}", "total": size, "free": size, "util": None}
    return card(index, name=f"A100 MIG {size}", **{**told, **more})


def test_a_partitioned_card_is_never_given_whole_and_a_program_gets_one_slice() -> None:
    cut = [card(0, partitioned=True), part(0), part(0, 20480)]
    assert [one.uuid for one in choose(cut, Request()).cards] == ["MIG-20480"]  # type: ignore[union-attr]
    answer = refused(cut, Request(2))
    assert answer.never
    assert answer.each == (("GPU 0 MIG 10240", "slice", ""), ("GPU 0 MIG 20480", "slice", ""))
    assert refused([card(0, partitioned=True)], Request()).each == (("GPU 0", "partitioned", ""),)


def test_the_smallest_slice_that_has_it_and_whole_cards_for_those_who_name_no_size() -> None:
    cards = [card(0), card(1, partitioned=True), part(1), part(1, 20480), part(1, 40960)]
    for memory, uuid in ((None, "GPU-0"), (5000, "MIG-10240"), (15000, "MIG-20480"), (30000, "MIG-40960"), (60000, "GPU-0")):
        assert [one.uuid for one in choose(cards, Request(1, memory)).cards] == [uuid]  # type: ignore[union-attr]


def test_a_card_that_was_at_fault_takes_its_slices_with_it() -> None:
    assert refused([part(0)], Request(avoid=frozenset({"GPU-0"}))).each[0][1] == "avoided"


def pairs(*links: tuple[int, int, int], count: int = 4, **more: object) -> list[Card]:
    """Cards with so many NVLink links between some of them."""
    both = [*links, *((b, a, n) for a, b, n in links)]
    return [card(n, linked=tuple((f"GPU-{b}", times) for a, b, times in both if a == n), **more) for n in range(count)]


@pytest.mark.parametrize(("links", "count", "chosen"), [
    (((0, 2, 4), (1, 3, 4)), 2, [0, 2]),
    (((0, 1, 1), (2, 3, 2)), 2, [2, 3]),
    (((0, 1, 2), (1, 2, 2), (0, 2, 2), (2, 3, 2)), 3, [0, 1, 2]),
    (((0, 1, 2), (2, 3, 2)), 3, [0, 1, 2]),
])  # fmt: skip
def test_those_that_nvlink_joins_go_together(links: tuple[tuple[int, int, int], ...], count: int, chosen: list[int]) -> None:
    cards = [replace(one, near=("numa0",) if one.index in (0, 1) else ("numa1",)) for one in pairs(*links)]
    assert got(cards, Request(count)) == chosen, "NVLink counts more than the node of NUMA"


def test_a_drained_card_is_said_to_be_so_and_may_come_back() -> None:
    told = refused([card(0, holder="ann", drained="xid-79"), card(1, holder="bob, pid 7: train")], Request())
    assert told.each == (("GPU 0", "drained", "ann: xid-79"), ("GPU 1", "leased", "bob, pid 7: train"))
    assert not told.never


@pytest.mark.parametrize(("cards", "want", "never", "fits", "words"), [
    ([card(0)], Request(2), True, 1, []),
    ([card(0), card(1)], Request(2, memory=90000), True, 0, ["small", "small"]),
    ([card(0, holder="ada"), card(1)], Request(2), False, 2, ["leased"]),
    ([card(0, unfit="gpu-fell-off-bus")], Request(), True, 0, ["unfit"]),
    ([card(0, free=100)], Request(memory=20000), False, 1, ["full"]),
    ([], Request(), True, 0, []),
])  # fmt: skip
def test_a_refusal_says_whether_waiting_helps(cards: list[Card], want: Request, never: bool, fits: int, words: list[str]) -> None:
    answer = refused(cards, want)
    assert (answer.never, answer.fits, [word for _, word, _ in answer.each]) == (never, fits, words)


CARDS = st.lists(
    st.builds(
        card, st.integers(0, 15), total=st.none() | st.integers(1000, 200000), free=st.none() | st.integers(0, 200000),
        util=st.none() | st.integers(0, 100), unfit=st.none() | st.just("x"), holder=st.none() | st.just("ada"),
        foreign=st.sampled_from([(), ("pid 1",)]), partitioned=st.booleans(), slice=st.booleans(),
        linked=st.lists(st.tuples(st.sampled_from(["GPU-0", "GPU-1", "GPU-2"]), st.integers(1, 4)), max_size=3).map(tuple),
        name=st.sampled_from(["A", "B"]),
        near=st.lists(st.sampled_from(["n0", "n1", "s0"]), max_size=3).map(tuple),
    ),
    max_size=12, unique_by=lambda one: one.index,
)  # fmt: skip
WANTS = st.builds(Request, st.integers(1, 8), st.none() | st.integers(1, 200000), st.frozensets(st.sampled_from(["GPU-0", "GPU-1"])))


@given(CARDS, WANTS)
def test_what_is_given_can_be_had_and_what_can_be_had_is_given(cards: list[Card], want: Request) -> None:
    usable = {one.uuid for one in cards if why_not(one, want) is None}
    answer = choose(cards, want)
    if isinstance(answer, Refused):
        assert len(usable) < want.count
        assert len(answer.each) == len(cards) - len(usable)
        if answer.never:
            assert answer.fits < want.count
        return
    chosen = [one.uuid for one in answer.cards]
    assert len(set(chosen)) == len(chosen) == want.count
    assert set(chosen) <= usable
    for one in answer.cards:
        assert (one.holder, one.unfit, one.foreign, one.partitioned) == (None, None, (), False)
        assert want.memory is None or one.free is None or one.free >= want.memory


@given(CARDS, WANTS, st.randoms())
def test_the_order_in_which_they_are_told_does_not_matter(cards: list[Card], want: Request, chance: object) -> None:
    other = list(cards)
    chance.shuffle(other)  # type: ignore[attr-defined]
    first, second = choose(cards, want), choose(other, want)
    assert type(first) is type(second)
    if isinstance(first, Chosen) and isinstance(second, Chosen):
        assert first.cards == second.cards


def test_hundreds_of_cards_take_no_time() -> None:
    cards = [card(n, near=(f"numa{n // 32}", f"switch{n // 8}")) for n in range(256)]
    assert len(got(cards, Request(8))) == 8
    assert len({one.near for one in choose(cards, Request(8)).cards}) == 1  # type: ignore[union-attr]
