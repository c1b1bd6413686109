"""The error lines that were printed, by their names in `knowledge/symptoms.toml`. What they mean is the rules' business."""

from collections.abc import Mapping

from ongpu.lazy import dataclass, field
from ongpu.model import Fact, Ref


@dataclass(frozen=True, slots=True)
class Hit:
    """One line that matches a symptom; `groups` are the regex's named groups."""

    name: str
    ref: Ref
    groups: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Symptoms(Fact):
    """All hits, in the order of the text. Given only where there is at least one."""

    hits: tuple[Hit, ...] = ()

    def seen(self, *names: str) -> tuple[Hit, ...]:
        """The hits of these symptoms."""
        return tuple(hit for hit in self.hits if hit.name in names)

    def has(self, *names: str) -> bool:
        """Whether any of these symptoms was printed."""
        return any(hit.name in names for hit in self.hits)

    def value(self, group: str, *names: str) -> str | None:
        """The first value of a named group in the hits of these symptoms (of all where none is named)."""
        for hit in self.hits:
            if (not names or hit.name in names) and hit.groups.get(group):
                return hit.groups[group]
        return None

    def cite(self, *names: str, most: int = 4) -> tuple[Ref, ...]:
        """The lines of these symptoms, the first `most` of each."""
        refs: list[Ref] = []
        for name in names:
            refs += [hit.ref for hit in self.hits if hit.name == name][:most]
        return tuple(dict.fromkeys(refs))
