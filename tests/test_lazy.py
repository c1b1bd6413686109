"""Our dataclasses against the standard library's."""

import copy
import dataclasses
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu import lazy


@lazy.dataclass(frozen=True, kw_only=True)
class Base:
    """With defaults of both kinds."""

    refs: tuple[str, ...] = ()
    more: Mapping[str, int] = lazy.field(default_factory=dict)


@lazy.dataclass(frozen=True, slots=True, kw_only=True)
class Below(Base):
    """With one that must be given."""

    number: int
    hidden: int = lazy.field(default=7, repr=False, compare=False)


def _both(**options: Any) -> tuple[type, type]:
    """The same class, made by each."""

    def make(module: Any) -> type:
        class Thing:
            x: int
            y: "int | None" = None
            z: list[int] = module.field(default_factory=list, repr=False)
            w: int = module.field(default=3, compare=False)

        made: type = module.dataclass(**options)(Thing)
        return made

    return make(dataclasses), make(lazy)


def _outcome(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except (TypeError, AttributeError) as error:
        return type(error).__name__


NAMES = st.sampled_from(["x", "y", "z", "w", "other"])


@given(st.booleans(), st.booleans(), st.lists(st.integers(0, 2), max_size=5), st.dictionaries(NAMES, st.integers(0, 2), max_size=4))
def test_they_take_the_same_arguments(frozen: bool, kw_only: bool, places: list[int], named: dict[str, int]) -> None:
    theirs, ours = (_outcome(lambda cls=cls: cls(*places, **named)) for cls in _both(frozen=frozen, kw_only=kw_only))
    if isinstance(theirs, str):
        assert ours == theirs
        return
    assert {name: getattr(ours, name) for name in lazy.field_names(ours)} == vars(theirs)
    assert repr(ours) == repr(theirs)
    assert _outcome(lambda: setattr(ours, "x", 9)) == _outcome(lambda: setattr(theirs, "x", 9))
    assert _outcome(lambda: hash(ours)) == _outcome(lambda: hash(theirs))


@given(*[st.lists(st.integers(0, 1), min_size=1, max_size=4)] * 2)
def test_they_are_equal_to_the_same(a: list[int], b: list[int]) -> None:
    theirs, ours = _both(frozen=True)
    assert (ours(*a) == ours(*b)) == (theirs(*a) == theirs(*b))
    assert ours(*a) != theirs(*a)


def test_identity_is_kept_where_it_is_asked_for() -> None:
    @lazy.dataclass(eq=False)
    class Node:
        value: int

    assert Node(1) != Node(1)
    assert len({Node(1), Node(1)}) == 2


def test_the_standard_library_knows_them() -> None:
    thing = Below(number=1, more={"a": 2})
    assert dataclasses.is_dataclass(thing)
    assert [field.name for field in dataclasses.fields(thing)] == ["refs", "more", "number", "hidden"] == list(lazy.field_names(Below))
    assert dataclasses.asdict(thing) == {"refs": (), "more": {"a": 2}, "number": 1, "hidden": 7}
    assert dataclasses.replace(thing, number=2) == lazy.replace(thing, number=2) == Below(number=2, more={"a": 2})


def test_the_standard_library_inherits_from_them() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Theirs(Below):
        last: str = "z"

    thing = Theirs(number=1)
    assert lazy.field_names(thing) == ("refs", "more", "number", "hidden", "last")
    assert lazy.replace(thing, last="y") == Theirs(number=1, last="y") != thing


def test_they_are_copied_and_pickled() -> None:
    thing = Below(number=1, refs=("a",))
    assert copy.deepcopy(thing) == pickle.loads(pickle.dumps(thing)) == thing
    assert (thing.hidden, Below.__match_args__) == (7, ())


def test_frozen_ones_cannot_be_changed() -> None:
    thing = Below(number=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        thing.number = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del thing.number  # type: ignore[misc]
