"""What a call does: the program's own functions are followed, known libraries' are looked up, others may do anything."""

import ast

from ongpu.facts.values import (
    Class,
    Const,
    Device,
    Function,
    Handle,
    Instance,
    Items,
    Loader,
    Method,
    Module,
    Named,
    Number,
    Optimizer,
    Parameters,
    Super,
    Tensor,
    Unknown,
    Value,
)
from ongpu.sources.python import library
from ongpu.sources.python.library_calls import Kw
from ongpu.sources.python.methods import Methods


class Calls(Methods):
    """Evaluates calls."""

    def call(self, node: ast.Call) -> Value:
        """What the call gives."""
        func = node.func
        base: Value | None = None
        name = ""
        if isinstance(func, ast.Attribute):
            base, name = self.value(func.value), func.attr
            if isinstance(base, Named):
                callee: Value = Named(library.canonical(f"{base.name}.{name}"))
            elif isinstance(base, Tensor | Optimizer | Loader | Handle | Items | Parameters | Unknown | Number | Const | Device):
                callee = Method(base, name)
            elif isinstance(base, Super):
                callee = self.inherited(base, name)
            elif isinstance(base, Module):
                callee = self._member(base, name, func)
            else:
                callee = self.attribute(base, name, func)
        else:
            callee = self.value(func)
        args: list[Value] = []
        stars = False
        for given in node.args:
            if isinstance(given, ast.Starred):
                inner = self.value(given.value)
                if isinstance(inner, Items) and not inner.uniform and inner.keys is None:
                    args += inner.items
                else:
                    stars = True
            else:
                args.append(self.value(given))
        kw: Kw = {}
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg is None:
                if isinstance(value, Items) and value.keys is not None:
                    kw |= {key.value: item for key, item in zip(value.keys, value.items, strict=False) if isinstance(key, Const) and isinstance(key.value, str)}
                else:
                    stars = True
                    if isinstance(value, Tensor):
                        kw["**"] = value  # a batch that is a dictionary
            else:
                kw[keyword.arg] = value
        return self.called(node, callee, base, name, args, kw, stars)

    def called(self, node: ast.Call, callee: Value, base: Value | None, name: str, args: list[Value], kw: Kw, stars: bool) -> Value:
        """What calling that value gives."""
        if isinstance(callee, Named):
            return self.library(node, callee.name, args, kw, stars)
        if isinstance(callee, Method):
            return self.method(node, callee, args, kw, stars)
        if isinstance(callee, Function):
            event = self.event("call", callee.name, node, args=tuple(args), kw=kw, stars=stars)
            event.value = self.run(callee, args, kw, event, stars=stars)
            return event.value
        if isinstance(callee, Class):
            event = self.event("call", callee.name, node, args=tuple(args), kw=kw, stars=stars)
            event.value = self.construct(callee, args, kw, event)
            return event.value
        if isinstance(callee, Module):
            return self.forward(node, callee, args, kw, stars)
        if isinstance(callee, Instance):
            found = callee.cls.find("__call__")
            event = self.event("call", callee.cls.name, node, callee, tuple(args), kw, stars=stars)
            event.value = self.run(found, args, kw, event, callee, stars) if isinstance(found, Function) else self.unknown(event)
            return event.value
        hint = callee.hint if isinstance(callee, Unknown) else ""
        event = self.event("call", f".{name}" if name else hint, node, base, tuple(args), kw, stars=stars)
        event.value = self.unknown(event)
        return event.value
