"""Made when first used: at start-up, six hundred regular expressions and eighty dataclasses would cost more than the diagnosis."""

import dataclasses
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


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(**options: Any) -> Callable[[type], type]:
        """`dataclasses.dataclass`, whose methods are written when the first object is made: most facts are never given.

        Without slots: these need another class, which could take the place of this one only at once.
        """
        options.pop("slots", None)

        def mark(cls: type) -> type:
            cls.__init__ = _first
            cls._unwritten = options
            return cls

        return mark

    def _first(self: Any, *args: Any, **values: Any) -> None:
        for cls in reversed(type(self).__mro__):
            if "_unwritten" in cls.__dict__:
                options = cls._unwritten
                del cls.__init__, cls._unwritten
                dataclasses.dataclass(**options)(cls)
        type(self).__init__(self, *args, **values)
