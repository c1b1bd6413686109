"""What a call in a function depends on: its parameters, through the function's assignments."""

import ast

ROUNDS = 4  # assignments in a row that are followed backwards


def depends(call: ast.Call, function: ast.FunctionDef) -> bool:
    """Whether an argument of the call depends on a parameter of the method (self aside)."""
    given = {arg.arg for arg in function.args.args[1:]}
    for _ in range(ROUNDS):
        for node in ast.walk(function):
            if isinstance(node, ast.withitem):
                _follow(given, node.context_expr, [node.optional_vars])
            elif isinstance(node, ast.For):
                _follow(given, node.iter, [node.target])
            elif isinstance(node, ast.Assign):
                _follow(given, node.value, list(node.targets))
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr | ast.AugAssign):
                _follow(given, node.value, [node.target])
    return bool(given & {name for part in (*call.args, *(k.value for k in call.keywords)) for name in names(part)})


def _follow(given: set[str], value: ast.expr | None, targets: list[ast.expr | None]) -> None:
    if value is not None and given & names(value):
        given |= {name for target in targets if target is not None for name in names(target)}


def names(node: ast.AST) -> set[str]:
    """The names in that piece of source."""
    return {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}
