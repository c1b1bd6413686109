"""What is known of many machines at once: which answered, how many GPUs each has and should have, what is wrong with each."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from math import comb

from ongpu.lazy import dataclass
from ongpu.model import Fact, Ref

# Slugs that say that a GPU which should be there is not: one family, for the tools of each node see the loss at different depths.
LOST = frozenset({"gpu-fell-off-bus", "gpu-not-on-bus", "power-cable-missing", "no-nvidia-gpu", "gpus-missing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One finding of one node. gpu: its index; severity as in findings."""

    slug: str
    gpu: int | None = None
    severity: str = "error"
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine. expected, present: GPUs; present counts those that answer. busy: mean utilisation in percent.

    answered: None where it could not be reached (problem says why). lost: indices of GPUs that are known and do not answer.
    idle_hours: GPU hours in the window that were held and not used.
    """

    name: str
    answered: bool
    problem: str = ""
    expected: int | None = None
    present: int | None = None
    lost: tuple[int, ...] = ()
    model: str | None = None
    driver: str | None = None
    kernel: str | None = None
    busy: float | None = None
    hottest: int | None = None
    idle_hours: float | None = None
    faults: tuple[Fault, ...] = ()
    ref: Ref

    @property
    def group(self) -> str:
        """The node's name without its last number: "rack3-node12" stands in rack3."""
        return self.name.split(".")[0].rstrip("0123456789").rstrip("-_") or self.name

    @property
    def worst(self) -> str:
        """The gravest severity among its faults; "" where it has none."""
        return next((s for s in ("error", "warning", "note") if any(f.severity == s for f in self.faults)), "")

    @property
    def says_lost(self) -> bool:
        """Whether its own diagnosis says that a GPU is not there."""
        return any(fault.slug in LOST and fault.severity == "error" for fault in self.faults)

    def missing(self, usual: int | None) -> int:
        """GPUs that it should have and does not show; 0 where nobody knows how many it should have."""
        want = self.expected if self.expected is not None else usual
        return max(0, want - self.present) if self.answered and want is not None and self.present is not None else 0


@dataclass(frozen=True, slots=True)
class Shared:
    """What the nodes of a group have in common that the others have not. what: "driver", "kernel", "model", "group", "slot"."""

    what: str
    value: str
    among: int
    others: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """One fault of many nodes. slug: "gpus-missing" for the losses of GPUs, however each node named them."""

    slug: str
    nodes: tuple[Node, ...]
    shared: tuple[Shared, ...]


@dataclass(frozen=True, kw_only=True)
class Fleet(Fact):
    """The nodes, in the order in which they were asked."""

    nodes: tuple[Node, ...] = ()

    def working(self) -> bool:
        """Whether a GPU was seen at work on each node."""
        return bool(self.nodes) and all(node.answered and node.present for node in self.nodes)

    @property
    def answered(self) -> tuple[Node, ...]:
        """Those that could be asked."""
        return tuple(node for node in self.nodes if node.answered)

    @property
    def usual(self) -> int | None:
        """The number of GPUs that the most nodes show, where at least half of them do; None: no such number."""
        counts = Counter(node.present for node in self.answered if node.present is not None)
        if not counts:
            return None
        number, nodes = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
        return number if 2 * nodes >= sum(counts.values()) else None

    def short(self) -> tuple[Node, ...]:
        """The nodes on which a GPU is missing: fewer than expected, or its own diagnosis says so."""
        usual = self.usual
        return tuple(n for n in self.answered if n.missing(usual) or n.lost or n.says_lost)

    def by_fault(self) -> dict[str, tuple[Node, ...]]:
        """slug -> the nodes that have it as error or warning; the losses of GPUs are one family, "gpus-missing"."""
        found: dict[str, list[Node]] = {}
        for node in self.answered:
            for slug in dict.fromkeys(f.slug for f in node.faults if f.severity != "note" and f.slug not in LOST):
                found.setdefault(slug, []).append(node)
        families = {"gpus-missing": self.short()}
        return {slug: tuple(nodes) for slug, nodes in [*families.items(), *found.items()] if nodes}

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """The faults that are no accident of one machine: on at least 3 nodes and 5 % of those that answered."""
        enough = max(3, 0.05 * len(self.answered))
        found = [Pattern(slug, nodes, self.shared(nodes)) for slug, nodes in self.by_fault().items() if len(nodes) >= enough]
        return tuple(sorted(found, key=lambda p: (p.slug != "gpus-missing", -len(p.nodes), p.slug)))

    def own(self, node: Node) -> tuple[Fault, ...]:
        """The node's faults, errors first, that no pattern of the fleet covers; notes apart."""
        known = {slug for p in self.patterns if node in p.nodes for slug in (LOST if p.slug == "gpus-missing" else (p.slug,))}
        return tuple(sorted((f for f in node.faults if f.severity != "note" and f.slug not in known), key=lambda f: f.severity))

    def shared(self, nodes: Iterable[Node]) -> tuple[Shared, ...]:
        """What sets these nodes apart: values that at least 80 % of them have, and that chance would hardly give (Fisher's exact
        test, one-sided, below 1 in 100)."""
        chosen = list(nodes)
        rest = [node for node in self.answered if node not in chosen]
        found = []
        for what, value_of in _ATTRIBUTES.items():
            values = Counter(value for node in chosen if (value := value_of(node)))
            for value, among in values.most_common(1):
                others = sum(value_of(node) == value for node in rest)
                if among >= 0.8 * len(chosen) and rest and _chance(among, len(chosen), others, len(rest)) < 0.01:
                    found.append(Shared(what, value, among, others))
        slots = Counter(gpu for node in chosen for gpu in set(_slots(node)))
        if slots and len(chosen) >= 3:
            (slot, among), told = slots.most_common(1)[0], sum(bool(_slots(node)) for node in chosen)
            usual = self.usual or max((node.expected or 0 for node in chosen), default=0)
            if among >= 0.8 * told and told >= 3 and usual > 1 and usual ** (1 - among) < 0.05:
                found.append(Shared("slot", f"GPU {slot}", among, 0))
        return tuple(found)


def _slots(node: Node) -> tuple[int, ...]:
    return node.lost or tuple(f.gpu for f in node.faults if f.gpu is not None)


_ATTRIBUTES: dict[str, Callable[[Node], str | None]] = {
    "driver": lambda node: node.driver,
    "kernel": lambda node: node.kernel,
    "model": lambda node: node.model,
    "group": lambda node: node.group,
}


def _chance(a: int, n: int, b: int, m: int) -> float:
    """The chance that at least `a` of `n` have what a + b of n + m have, were it spread at random (the hypergeometric tail)."""
    having, total = a + b, n + m
    ways = sum(comb(having, k) * comb(total - having, n - k) for k in range(a, min(n, having) + 1) if n - k <= total - having)
    return ways / comb(total, n)
