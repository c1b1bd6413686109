"""What a setting is where its user says nothing: the default of the command line's option that it comes from."""

from ongpu.facts.program import Event, Script
from ongpu.facts.values import Const, Unknown, Value


def option(script: Script, value: Value | None) -> Event | None:
    """The add_argument (or click.option) that `value` comes from: args.workers comes from "--workers"; None where it comes from none."""
    name = value.hint.rpartition(".")[2] if isinstance(value, Unknown) else ""
    if not name:
        return None
    for told in script.calls(".add_argument", "click.option", "typer.Option"):
        dest = told.says("dest")
        flags = [given.value for given in told.args if isinstance(given, Const) and isinstance(given.value, str)]
        if name == dest or (dest is None and any(flag.lstrip("-").replace("-", "_") == name for flag in flags)):
            return told
    return None


def default(script: Script, value: Value | None) -> object:
    """That default; ... (Ellipsis) where there is none that is written out."""
    told = option(script, value)
    return told.says("default", ...) if told is not None else ...
