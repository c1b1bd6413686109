"""Sums, products and quotients of known numbers: a layer's size may be "3 * dim"."""

import ast

from ongpu.facts.values import Const, Number, Value

MOST = 1e15  # larger operands are not computed


def folded(op: ast.operator, left: Value, right: Value) -> Value:
    """The number that it gives, where both are known; else some number."""
    if not isinstance(left, Const) or not isinstance(right, Const):
        return Number()
    one, other = left.value, right.value
    if type(one) not in (int, float) or type(other) not in (int, float) or abs(one) > MOST or abs(other) > MOST:
        return Number()
    if isinstance(op, ast.Add):
        return Const(one + other)
    if isinstance(op, ast.Sub):
        return Const(one - other)
    if isinstance(op, ast.Mult):
        return Const(one * other)
    if other and isinstance(op, ast.Div | ast.FloorDiv):
        return Const(one / other if isinstance(op, ast.Div) else one // other)
    return Number()
