"""Puts an answer in place of a function of torch: a function object of its own for each name, since torch._dynamo, when it is
imported later, keeps one rule for each object and refuses two names for one."""

from __future__ import annotations

import types
from typing import Any


def put(owner: Any, name: str, answer: Any) -> None:
    """owner.name = answer."""
    if isinstance(answer, types.FunctionType):
        own = types.FunctionType(answer.__code__, answer.__globals__, name, answer.__defaults__, answer.__closure__)
        own.__kwdefaults__, own.__doc__, own.__module__ = answer.__kwdefaults__, answer.__doc__, answer.__module__
        answer = own
    setattr(owner, name, answer)
