"""PyTorch's caching allocator of one device, simulated: sizes, pools, best fit, split, merge, flush, out of memory.

Numbers and order of trials as in c10/cuda/CUDACachingAllocator.cpp (torch 2.4 to 2.13): kMinBlockSize 512, kSmallSize 1 MiB,
kSmallBuffer 2 MiB, kLargeBuffer 20 MiB, kMinLargeAlloc 10 MiB, kRoundLarge 2 MiB. One stream. Pure Python, no torch.
"""

from __future__ import annotations

import bisect
from typing import Dict, List, Optional, Set, Tuple

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MIN_BLOCK, SMALL, SMALL_BUFFER, LARGE_BUFFER, MIN_LARGE, ROUND_LARGE = 512, MIB, 2 * MIB, 20 * MIB, 10 * MIB, 2 * MIB
UNLIMITED = 1 << 62


class OutOfMemory(Exception):
    """The pretend card has no room; str() is the message that PyTorch prints."""


class Settings:
    """What PYTORCH_CUDA_ALLOC_CONF can change. Sizes in bytes; unknown words are ignored, as they change no sizes here."""

    def __init__(self, text: str = "") -> None:
        self.max_split = UNLIMITED
        self.expandable = False
        self.divisions = 0
        self.gc_threshold = 0.0
        for part in text[:2000].split(","):
            name, _, value = part.partition(":")
            name, value = name.strip(), value.strip()
            try:
                if name == "max_split_size_mb":
                    self.max_split = max(20, int(value)) * MIB
                elif name == "expandable_segments":
                    self.expandable = value.lower() in ("true", "1")
                elif name == "roundup_power2_divisions" and not value.startswith("["):
                    self.divisions = int(value)
                elif name == "garbage_collection_threshold":
                    self.gc_threshold = float(value)
            except ValueError:
                continue


class Block:
    """A piece of a segment. `next` and `prev` are its neighbours in the same segment; `asked` is what the program wanted."""

    __slots__ = ("address", "asked", "free", "next", "prev", "segment", "size", "small")

    def __init__(self, address: int, size: int, segment: int, small: bool) -> None:
        self.address, self.size, self.segment, self.small = address, size, segment, small
        self.asked = 0
        self.free = True
        self.prev: Optional[Block] = None
        self.next: Optional[Block] = None


class Allocator:
    """`malloc` and `release` as a program on one stream sees them. All figures in bytes.

    capacity: what cudaMalloc can give this process. The attributes allocated, reserved, requested are current, peak_* the highest.
    """

    def __init__(self, capacity: int, total: Optional[int] = None, index: int = 0, settings: Optional[Settings] = None) -> None:
        self.capacity, self.total, self.index = capacity, total if total is not None else capacity, index
        self.settings = settings or Settings()
        self.allocated = self.reserved = self.requested = 0
        self.peak_allocated = self.peak_reserved = self.peak_requested = 0
        self.ooms = self.retries = self.mallocs = self.segments_made = 0
        self._free: Dict[bool, List[Tuple[int, int, Block]]] = {True: [], False: []}
        self._segments: Dict[int, int] = {}
        self._grown: Dict[bool, Block] = {}
        self._blocks: Set[Block] = set()
        self._next_address = 1 << 44

    # -- sizes ------------------------------------------------------------------------------------------------------------
    def rounded(self, asked: int) -> int:
        """The size of the block for a request."""
        if asked < MIN_BLOCK:
            return MIN_BLOCK
        parts = self.settings.divisions
        if parts > 1 and asked > MIN_BLOCK * parts:
            floor = 1 << (asked.bit_length() - 1)
            if floor != asked:
                step = max(MIN_BLOCK, floor // parts)
                return -(-asked // step) * step
        return -(-asked // MIN_BLOCK) * MIN_BLOCK

    @staticmethod
    def segment_size(size: int) -> int:
        """What is asked of cudaMalloc for a block of that size."""
        if size <= SMALL:
            return SMALL_BUFFER
        if size < MIN_LARGE:
            return LARGE_BUFFER
        return -(-size // ROUND_LARGE) * ROUND_LARGE

    # -- the two calls ----------------------------------------------------------------------------------------------------
    def malloc(self, asked: int) -> Optional[Block]:
        """A block of at least `asked` bytes, None for zero bytes. Raises OutOfMemory."""
        if asked <= 0:
            return None
        size = self.rounded(asked)
        small = size <= SMALL
        block = self._best_fit(size, small)
        if block is None:
            block = self._from_device(size, small)
        if block is None:
            self.retries += 1
            self._release_oversize(size)
            block = self._from_device(size, small)
            if block is None:
                self.empty_cache()
                block = self._from_device(size, small)
        if block is None:
            self.ooms += 1
            raise OutOfMemory(self.message(asked))
        rest = block.size - size
        if self._splits(size, rest, small):
            tail = Block(block.address + size, rest, block.segment, small)
            tail.prev, tail.next = block, block.next
            if block.next is not None:
                block.next.prev = tail
            block.next, block.size = tail, size
            self._put(tail)
            if self._grown.get(small) is block:
                self._grown[small] = tail
        block.free, block.asked = False, asked
        self._blocks.add(block)
        self.mallocs += 1
        self.allocated += block.size
        self.requested += asked
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        self.peak_requested = max(self.peak_requested, self.requested)
        return block

    def release(self, block: Block) -> None:
        """Give a block back: it stays reserved, merged with free neighbours."""
        self._blocks.remove(block)
        self.allocated -= block.size
        self.requested -= block.asked
        block.free, block.asked = True, 0
        before, after = block.prev, block.next
        if before is not None and before.free:
            self._take(before)
            block = self._merge(before, block)
        if after is not None and after.free:
            self._take(after)
            block = self._merge(block, after)
        self._put(block)

    def empty_cache(self) -> None:
        """Give whole free segments (with expandable segments: every free part of whole pages) back to the device."""
        for small in (True, False):
            kept: List[Tuple[int, int, Block]] = []
            for entry in self._free[small]:
                if not self._give_back(entry[2]):
                    kept.append(entry)
            self._free[small] = kept
            if self.settings.expandable:
                self._free[small] = sorted((b.size, b.address, b) for _, _, b in kept)

    def reset_peaks(self) -> None:
        """As torch.cuda.reset_peak_memory_stats."""
        self.peak_allocated, self.peak_reserved, self.peak_requested = self.allocated, self.reserved, self.requested

    # -- words ------------------------------------------------------------------------------------------------------------
    def message(self, asked: int) -> str:
        """As CUDACachingAllocator words it since torch 2.2 (process details left out: there is one process)."""
        free = self.capacity - self.reserved
        return (
            "CUDA out of memory. Tried to allocate %s. GPU %d has a total capacity of %s of which %s is free. Including non-PyTorch "
            "memory, this process has %s memory in use. Of the allocated memory %s is allocated by PyTorch, and %s is reserved by "
            "PyTorch but unallocated. If reserved but unallocated memory is large try setting "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  "
            "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        ) % (
            words(asked), self.index, words(self.total), words(free), words(self.total - free), words(self.allocated),
            words(self.reserved - self.allocated),
        )  # fmt: skip

    # -- inside -----------------------------------------------------------------------------------------------------------
    def _splits(self, size: int, rest: int, small: bool) -> bool:
        if small or self.settings.expandable:
            return rest >= MIN_BLOCK
        return size < self.settings.max_split and rest > SMALL

    def _best_fit(self, size: int, small: bool) -> Optional[Block]:
        pool = self._free[small]
        at = bisect.bisect_left(pool, (size, 0))
        if at == len(pool):
            return None
        found = pool[at][2]
        limit = self.settings.max_split
        if size < limit <= found.size or (size >= limit and found.size >= size + LARGE_BUFFER):
            return None
        pool.pop(at)
        return found

    def _from_device(self, size: int, small: bool) -> Optional[Block]:
        if self.settings.expandable:
            return self._grow(size, small)
        wanted = self.segment_size(size)
        if self.reserved + wanted > self.capacity:
            return None
        block = Block(self._next_address, wanted, self._next_address, small)
        self._next_address += wanted + ROUND_LARGE  # a gap, so that segments never touch
        self._segments[block.segment] = wanted
        self._add_reserved(wanted)
        return block

    def _grow(self, size: int, small: bool) -> Optional[Block]:
        """Expandable segments: one address range per pool, mapped in pages of 2 or 20 MiB at its end."""
        page = SMALL_BUFFER if small else LARGE_BUFFER
        last = self._grown.get(small)
        if last is None:
            start = self._next_address
            self._next_address += 1 << 44
            have = 0
        else:
            start = last.address + last.size
            have = last.size if last.free else 0
        more = -(-(size - have) // page) * page
        if self.reserved + more > self.capacity:
            return None
        segment = last.segment if last is not None else start
        self._segments[segment] = self._segments.get(segment, 0) + more
        self._add_reserved(more)
        if last is not None and last.free:
            self._take(last)
            last.size += more
            return last
        block = Block(start, more, segment, small)
        if last is not None:
            block.prev, last.next = last, block
        self._grown[small] = block
        return block

    def _give_back(self, block: Block) -> bool:
        """True if the block is gone from the pool."""
        if not self.settings.expandable:
            if block.prev is not None or block.next is not None:
                return False
            del self._segments[block.segment]
            self.reserved -= block.size
            return True
        page = SMALL_BUFFER if block.small else LARGE_BUFFER
        if block.next is not None:  # a hole in the middle: its whole pages are unmapped; kept simple, only the end shrinks
            return False
        gone = block.size // page * page
        self._segments[block.segment] -= gone
        self.reserved -= gone
        block.size -= gone
        if block.size:
            return False
        if block.prev is not None:
            block.prev.next = None
            self._grown[block.small] = block.prev
        else:
            self._grown.pop(block.small, None)
            del self._segments[block.segment]
        return True

    def _release_oversize(self, size: int) -> None:
        """release_available_cached_blocks: only with max_split_size set, free oversize blocks until the request fits."""
        limit = self.settings.max_split
        if limit == UNLIMITED:
            return
        want, freed = max(size, limit), 0
        for entry in list(self._free[False]):
            block = entry[2]
            if block.size >= limit and freed < want and block.prev is None and block.next is None:
                self._take(block)
                self._give_back(block)
                freed += block.size

    def _add_reserved(self, size: int) -> None:
        self.reserved += size
        self.segments_made += 1
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def _merge(self, low: Block, high: Block) -> Block:
        low.size += high.size
        low.next = high.next
        if high.next is not None:
            high.next.prev = low
        if self._grown.get(low.small) is high:
            self._grown[low.small] = low
        return low

    def _put(self, block: Block) -> None:
        bisect.insort(self._free[block.small], (block.size, block.address, block))

    def _take(self, block: Block) -> None:
        pool = self._free[block.small]
        pool.pop(bisect.bisect_left(pool, (block.size, block.address)))

    def layout(self) -> List[Tuple[int, int, bool, int]]:
        """(address, size, free, segment) of every block, for the tests and for accounts of fragmentation; sorted."""
        found = [(b.address, b.size, False, b.segment) for b in self._blocks]
        found += [(b.address, b.size, True, b.segment) for pool in self._free.values() for _, _, b in pool]
        return sorted(found)


def words(size: int) -> str:
    """A size as PyTorch prints it: 2 digits, the unit that fits."""
    if size <= KIB:
        return "%d bytes" % size
    if size <= MIB:
        return "%.2f KiB" % (size / KIB)
    if size <= GIB:
        return "%.2f MiB" % (size / MIB)
    return "%.2f GiB" % (size / GIB)
