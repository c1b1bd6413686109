"""The simulated caching allocator: nothing overlaps, neighbours merge, the books are right, sizes are PyTorch's."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.probes.dryrun.allocator import GIB, KIB, MIB, Allocator, OutOfMemory, Settings, words

EDGES = st.sampled_from([512, MIB, 10 * MIB, 20 * MIB])
SIZES = st.one_of(st.integers(1, 4 * KIB), st.integers(1, 3 * MIB), st.integers(1, 40 * MIB), EDGES)
ACTIONS = st.lists(st.one_of(SIZES, st.floats(0, 1, exclude_max=True), st.just("flush")), max_size=120)
CONFIGS = st.sampled_from(["", "expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:8"])


def play(memory: Allocator, actions: list[object]) -> list[object]:
    """Whole numbers are requests, fractions choose what is freed. The blocks still held."""
    held: list[object] = []
    for action in actions:
        if isinstance(action, float):
            if held:
                memory.release(held.pop(int(action * len(held))))
        elif action == "flush":
            memory.empty_cache()
        else:
            try:
                held.append(memory.malloc(action))
            except OutOfMemory:
                continue
    return held


@settings(max_examples=150, deadline=None)
@given(ACTIONS, CONFIGS, st.sampled_from([64 * MIB, GIB, 1 << 50]))
def test_blocks_never_overlap_and_the_books_are_right(actions: list[object], conf: str, capacity: int) -> None:
    memory = Allocator(capacity, settings=Settings(conf))
    held = play(memory, actions)
    layout = memory.layout()
    for (start, size, free, segment), (following, _, next_free, next_segment) in pairwise(layout):
        assert start + size <= following
        if segment == next_segment:
            assert not (free and next_free and start + size == following), "free neighbours were not merged"
    assert sum(size for _, size, free, _ in layout if not free) == memory.allocated
    assert sum(size for _, size, _, _ in layout) == memory.reserved
    assert memory.allocated <= memory.reserved <= capacity
    assert memory.requested == sum(block.asked for block in held)
    assert memory.peak_allocated >= memory.allocated
    assert memory.peak_reserved >= memory.peak_allocated


@settings(max_examples=80, deadline=None)
@given(ACTIONS, CONFIGS)
def test_all_given_back_leaves_nothing(actions: list[object], conf: str) -> None:
    memory = Allocator(1 << 50, settings=Settings(conf))
    for block in play(memory, actions):
        memory.release(block)
    assert memory.allocated == memory.requested == 0
    assert all(free for _, _, free, _ in memory.layout())
    memory.empty_cache()
    assert memory.reserved == 0
    assert memory.layout() == []


@pytest.mark.parametrize(
    ("asked", "block", "segment"),
    [(1, 512, 2 * MIB), (513, 1024, 2 * MIB), (MIB, MIB, 2 * MIB), (MIB + 1, MIB + 512, 20 * MIB), (10 * MIB, 10 * MIB, 10 * MIB),
     (10 * MIB - 1, 10 * MIB, 10 * MIB), (9 * MIB, 9 * MIB, 20 * MIB), (21 * MIB + 1, 21 * MIB + 512, 22 * MIB)],
)  # fmt: skip
def test_sizes_are_those_of_the_real_allocator(asked: int, block: int, segment: int) -> None:
    memory = Allocator(GIB)
    made = memory.malloc(asked)
    assert made is not None
    assert memory.rounded(asked) == block
    assert memory.reserved == segment
    # a large block is only split where more than 1 MiB is left
    assert made.size == (block if block <= MIB or segment - block > MIB else segment)


def test_the_smallest_block_that_fits_is_taken() -> None:
    memory = Allocator(GIB)
    large, gap, small = memory.malloc(40 * MIB), memory.malloc(30 * MIB), memory.malloc(32 * MIB)
    assert large is not None
    assert gap is not None
    assert small is not None
    memory.release(large)
    memory.release(small)
    again = memory.malloc(31 * MIB)
    assert again is not None
    assert again.address == small.address
    assert memory.reserved == 102 * MIB


def test_zero_bytes_take_nothing() -> None:
    memory = Allocator(GIB)
    assert memory.malloc(0) is None
    assert memory.reserved == 0


def test_the_cache_is_flushed_before_giving_up() -> None:
    memory = Allocator(100 * MIB)
    first = memory.malloc(60 * MIB)
    assert first is not None
    memory.release(first)
    assert memory.malloc(80 * MIB) is not None  # only fits once the 60 MiB went back to the device
    assert memory.retries == 1
    assert memory.ooms == 0


def test_out_of_memory_says_it_as_pytorch_does() -> None:
    memory = Allocator(100 * MIB, 128 * MIB)
    memory.malloc(60 * MIB)
    with pytest.raises(OutOfMemory) as caught:
        memory.malloc(50 * MIB)
    text = str(caught.value)
    assert text.startswith("CUDA out of memory. Tried to allocate 50.00 MiB. GPU 0 has a total capacity of 128.00 MiB of which 40.00 MiB")
    assert "Of the allocated memory 60.00 MiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated." in text
    assert memory.ooms == 1


def test_fragmentation_is_less_with_expandable_segments() -> None:
    def reserved(conf: str) -> int:
        memory = Allocator(1 << 50, settings=Settings(conf))
        for step in range(1, 30):
            held = [memory.malloc((step + k) * 3 * MIB) for k in range(4)]
            for block in held:
                assert block is not None
                memory.release(block)
        return memory.peak_reserved

    assert reserved("expandable_segments:True") < reserved("")


@given(st.text(max_size=60))
def test_any_setting_text_is_read(text: str) -> None:
    assert Settings(text).max_split >= 20 * MIB


@pytest.mark.parametrize(("size", "told"), [(512, "512 bytes"), (2048, "2.00 KiB"), (3 * MIB, "3.00 MiB"), (5 * GIB // 2, "2.50 GiB")])
def test_sizes_in_words(size: int, told: str) -> None:
    assert words(size) == told
