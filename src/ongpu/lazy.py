"""Made when first used, or cheaply: six hundred regular expressions and eighty dataclasses would cost more than the diagnosis.

`dataclass`, `field` and `replace` stand for those of the standard library, which writes and compiles source: 0.3 ms a class.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, AnyStr, cast


class _Lazy:
    """Stands in for a compiled pattern until a method or attribute of it is asked for."""

    def __init__(self, regex: Any, flags: int) -> None:
        self._source = (regex, flags)

    def __getattr__(self, name: str) -> Any:
        if name == "_compiled":
            self._compiled = value = re.compile(*self._source)
        else:
            value = getattr(self._compiled, name)
            setattr(self, name, value)  # found without us from now on
        return value


def lazy(regex: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The pattern, compiled at its first use; a wrong regex is found there (a test compiles each one)."""
    return cast("re.Pattern[AnyStr]", _Lazy(regex, int(flags)))


_UNSET: Any = object()


class _Field:
    """What is known of one field. factory: makes the default, where there is one to make. kw_only, type: of its class."""

    def __init__(self, default: Any = _UNSET, factory: Any = _UNSET, repr: bool = True, compare: bool = True) -> None:
        self.default, self.factory, self.repr, self.compare = default, factory, repr, compare
        self.kw_only, self.type = False, None


def field_names(record: Any) -> tuple[str, ...]:
    """The names of the fields of a dataclass (ours, or the standard library's that inherits from ours), or of an object of it."""
    kind = record if isinstance(record, type) else type(record)
    owner = next(vars(cls) for cls in kind.__mro__ if "__dataclass_fields__" in vars(cls))
    return tuple(owner["_fields"] if "_fields" in owner else owner["__dataclass_fields__"])


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:

    def field(*, default: Any = _UNSET, default_factory: Any = _UNSET, repr: bool = True, compare: bool = True) -> _Field:
        """`dataclasses.field`."""
        return _Field(default, default_factory, repr, compare)

    def replace(record: Any, /, **changes: Any) -> Any:
        """`dataclasses.replace`."""
        fields = vars(type(record)).get("_fields", {})
        if fields and len(record.__dict__) == len(fields) and fields.keys() >= changes.keys():  # has nothing but its fields
            new = object.__new__(type(record))
            new.__dict__.update(record.__dict__, **changes)
            return new
        return type(record)(**{name: getattr(record, name) for name in field_names(record) if name not in changes}, **changes)

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True) -> Any:
        """`dataclasses.dataclass`, as far as we use it; without slots, which would need another class in this one's place.

        All that the standard library asks of a dataclass (fields, asdict, replace, inheriting) is answered when it asks.
        """
        del slots  # they save memory, and only where there are many objects

        def mark(cls: type) -> type:
            fields: dict[str, _Field] = {}
            for base in reversed(cls.__mro__[1:]):
                fields.update(vars(base).get("_fields", {}))
            for name, annotation in cls.__annotations__.items():
                fields[name] = one = _told(vars(cls).get(name, _UNSET))
                one.kw_only, one.type = kw_only, annotation
                if one.default is not _UNSET:
                    setattr(cls, name, one.default)
                elif name in vars(cls):
                    delattr(cls, name)
            cls._fields = fields
            cls.__match_args__ = tuple(name for name, one in fields.items() if not one.kw_only)
            cls.__init__ = _initialiser(cls, fields)
            cls.__dataclass_fields__ = _Asked("__dataclass_fields__", frozen)
            cls.__dataclass_params__ = _Asked("__dataclass_params__", frozen)
            if frozen:
                cls.__setattr__, cls.__delattr__ = _refuse, _refuse
            if "__repr__" not in vars(cls):
                cls.__repr__ = _repr
            if eq and vars(cls).get("__hash__") is None:  # Python sets it to None where a class brings its own __eq__
                cls.__hash__ = _hash if frozen else None
            if eq and "__eq__" not in vars(cls):
                cls.__eq__ = _eq
            return cls

        return mark if cls is None else mark(cls)

    def _told(value: Any) -> _Field:
        """What the class says after a field's "=": a default, our field(), or the standard library's."""
        if isinstance(value, _Field) or not hasattr(value, "default_factory"):
            return value if isinstance(value, _Field) else _Field(value)
        default, factory = (_UNSET if type(v).__name__ == "_MISSING_TYPE" else v for v in (value.default, value.default_factory))
        return _Field(default, factory, value.repr, value.compare)

    def _initialiser(cls: type, fields: dict[str, _Field]) -> Callable[..., None]:
        places = cls.__match_args__
        defaults = {name: one.default for name, one in fields.items() if one.default is not _UNSET}
        factories = {name: one.factory for name, one in fields.items() if one.factory is not _UNSET}
        known, count = frozenset(fields), len(fields)

        def __init__(self: Any, *args: Any, **values: Any) -> None:
            here = self.__dict__
            here.update(defaults)
            if args:
                here.update(zip(places, args, strict=False))
                if len(args) > len(places) or not values.keys().isdisjoint(places[: len(args)]):
                    raise TypeError(f"{cls.__qualname__}() got too many arguments: {args!r:.200}")
            here.update(values)
            for name, make in factories.items():
                if name not in here:
                    here[name] = make()
            if len(here) != count or not known.issuperset(values):
                wrong = ", ".join(sorted(known.symmetric_difference(here)))
                raise TypeError(f"{cls.__qualname__}(): arguments that are missing or not known: {wrong}")

        return __init__

    class _Asked:
        """An attribute by which the standard library knows a dataclass: made by itself, when it is asked for."""

        def __init__(self, name: str, frozen: bool) -> None:
            self.name, self.frozen = name, frozen

        def __get__(self, record: Any, cls: Any) -> Any:
            import dataclasses

            def theirs(one: _Field) -> Any:
                default, factory = (dataclasses.MISSING if v is _UNSET else v for v in (one.default, one.factory))
                return dataclasses.field(default=default, default_factory=factory, repr=one.repr, compare=one.compare, kw_only=one.kw_only)

            owner = next(c for c in cls.__mro__ if vars(c).get(self.name) is self)
            twin = dataclasses.make_dataclass(
                owner.__name__, [(name, one.type, theirs(one)) for name, one in owner._fields.items()], frozen=self.frozen
            )
            setattr(owner, self.name, getattr(twin, self.name))
            return getattr(owner, self.name)

    def _values(self: Any) -> tuple[Any, ...]:
        here = self.__dict__
        return tuple([here[name] for name, one in self._fields.items() if one.compare])

    def _eq(self: Any, other: object) -> Any:
        return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented

    def _hash(self: Any) -> int:
        return hash(_values(self))

    def _repr(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name, one in self._fields.items() if one.repr)
        return f"{type(self).__qualname__}({shown})"

    def _refuse(self: Any, name: str, value: Any = None) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot change field {name!r}")
