"""Which GPUs a command gets: the freest that are healthy, whole, and near each other. Pure: what is known in, UUIDs out."""

from collections.abc import Iterable, Sequence
from itertools import combinations, islice

from ongpu.lazy import dataclass

MOST_SETS = 20_000  # of GPUs that are compared; beyond, the freest are taken without a look at their neighbourhood
IDLE = 10  # percent of utilisation below which a GPU counts as free of work
LITTLE = 1024  # MiB in use that need no explanation: the driver's own, a desktop


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One GPU, or one slice of a partitioned one (MIG). Memory in MiB. None: not told.

    unfit: the slug of what is wrong with it. holder: who leases it, in words; drained: why he took it out of service, a slug. foreign:
    programs that compute on it and are not ours, in words. unexplained: MiB of its memory that are in use, and by no program that can be
    seen. near: nodes of NUMA, NVSwitch and bus that it belongs to, from the widest to the closest. linked: (UUID, links): GPUs that NVLink
    leads to without a switch.
    """

    uuid: str
    index: int
    name: str = ""
    total: int | None = None
    free: int | None = None
    util: int | None = None
    unfit: str | None = None
    holder: str | None = None
    drained: str = ""
    foreign: tuple[str, ...] = ()
    unexplained: int = 0
    slice: bool = False
    partitioned: bool = False  # its slices are given out, never the whole
    near: tuple[str, ...] = ()
    linked: tuple[tuple[str, int], ...] = ()
    card: str = ""  # of a slice: the UUID of the whole card

    @property
    def label(self) -> str:
        """ "GPU 0", "GPU 0 MIG 1g.10gb"."""
        return f"GPU {self.index}" + (f" MIG {self.name.rpartition('MIG ')[2]}" if self.slice else "")

    @property
    def last(self) -> bool:
        """Whether it is given only where others do not do: something uses it, and nobody knows what."""
        return self.unexplained > LITTLE


@dataclass(frozen=True, slots=True)
class Request:
    """How many GPUs, with how much memory each (MiB); those to avoid, by UUID; only: those that may be used, None: all."""

    count: int = 1
    memory: int | None = None
    avoid: frozenset[str] = frozenset()
    only: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """The GPUs, the freest set first in the order of their indices."""

    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Why not. never: no waiting will help. each: for every GPU that is not usable, its label, why (a word) and more.

    fits: the most GPUs that can ever be had at once with that memory; largest: MiB of the largest GPU.
    """

    never: bool
    each: tuple[tuple[str, str, str], ...]
    fits: int
    largest: int | None


def choose(cards: Sequence[Card], want: Request) -> Chosen | Refused:
    """The best free GPUs for the request, or why there are none. Every GPU chosen is fit, unleased, without foreign programs, and has
    the memory free."""
    usable = [card for card in cards if why_not(card, want) is None]
    if len(usable) >= want.count:
        return Chosen(_best(usable, want))
    ever = [card for card in cards if _ever(card, want)]
    cut = {card.card for card in cards if card.slice}  # their slices speak for them
    each = tuple((card.label, *reason) for card in cards if (reason := why_not(card, want)) and not (card.partitioned and card.uuid in cut))
    alive = [card for card in cards if not card.partitioned]
    largest = max((card.total for card in alive if card.total is not None), default=None)
    return Refused(len(ever) < want.count, each, len(ever), largest)


def why_not(card: Card, want: Request) -> tuple[str, str] | None:
    """Why a GPU cannot be had now: a word, and what stands behind it; None: it can."""
    if card.partitioned:
        return "partitioned", ""
    if card.slice and want.count > 1:
        return "slice", ""
    if want.only is not None and card.uuid not in want.only:
        return "hidden", ""
    if card.uuid in want.avoid or (card.card and card.card in want.avoid):
        return "avoided", ""
    if card.unfit:
        return "unfit", card.unfit
    if want.memory is not None and card.total is not None and card.total < want.memory:
        return "small", str(card.total)
    if card.holder is not None:
        return ("drained", f"{card.holder}: {card.drained}") if card.drained else ("leased", card.holder)
    if card.foreign:
        return "busy", ", ".join(card.foreign[:3])
    if want.memory is not None and card.free is not None and card.free < want.memory:
        return "full", str(card.free)
    return None


def _ever(card: Card, want: Request) -> bool:
    """Whether it can be had when others have ended."""
    reason = why_not(card, want)
    return reason is None or reason[0] in ("leased", "drained", "busy", "full")


def _best(usable: Sequence[Card], want: Request) -> tuple[Card, ...]:
    ordered = sorted(usable, key=lambda card: (card.last, _spared(card, want), *_rank(card)))
    if not 1 < want.count < len(ordered):
        return _by_index(ordered[: want.count])
    # For several the neighbourhood counts more than who is a little freer; among equals the freest come first.
    sets: list[tuple[Card, ...]] = [*_groups(ordered, want.count), *islice(combinations(ordered, want.count), MOST_SETS)]
    best = min(sets, key=lambda some: (sum(card.last for card in some), _alike(some), *_links(some), -_nearness(some), _sum(some)))
    return _by_index(best)


def _spared(card: Card, want: Request) -> tuple[int, int]:
    """What a card is kept for: with a size asked for, the smallest slice that has it goes first, so that larger ones and whole cards
    stay for those who need them; without, a whole card goes before a slice."""
    if want.memory is None:
        return int(card.slice), 0
    return int(not card.slice), (card.total or 0) if card.slice else 0


def _groups(ordered: Sequence[Card], count: int) -> Iterable[tuple[Card, ...]]:
    """The freest of each neighbourhood: so that none is missed where there are too many sets to look at."""
    for card in ordered:  # a card and those that it is linked to
        here = [card, *(other for other in ordered if other is not card and dict(card.linked).get(other.uuid))]
        if len(here) >= count:
            yield tuple(here[:count])
    for name in sorted({name for card in ordered for name in card.near}):
        here = [card for card in ordered if name in card.near]
        if len(here) >= count:
            yield tuple(here[:count])


def _by_index(some: Iterable[Card]) -> tuple[Card, ...]:
    return tuple(sorted(some, key=lambda card: (card.index, card.uuid)))


def _rank(card: Card) -> tuple[float, float, int, str]:
    """The freest first: without work, with the most memory free; then by index."""
    busy = 0.0 if card.util is None else max(0, card.util - IDLE)
    free = card.free if card.free is not None else -1
    return busy, -free, card.index, card.uuid


def _sum(some: Sequence[Card]) -> tuple[float, float, int]:
    ranks = [_rank(card) for card in some]
    return sum(r[0] for r in ranks), sum(r[1] for r in ranks), sum(r[2] for r in ranks)


def _links(some: Sequence[Card]) -> tuple[int, int]:
    """How badly they are joined by NVLink without a switch: the fewest links between two of them, then all links; more come first."""
    if not any(card.linked for card in some):
        return 0, 0
    pairs = [dict(a.linked).get(b.uuid, 0) for a, b in combinations(some, 2)]
    return -min(pairs), -sum(pairs)


def _alike(some: Sequence[Card]) -> int:
    """How many models they are of: a job over unlike GPUs is as slow as the slowest."""
    return len({(card.name, card.total) for card in some})


def _nearness(some: Sequence[Card]) -> int:
    """How many levels of the neighbourhood all of them share."""
    shared = set(some[0].near)
    for card in some[1:]:
        shared &= set(card.near)
    return len(shared)
