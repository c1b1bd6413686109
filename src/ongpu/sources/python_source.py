"""Python source: scripts, notebooks' JSON, and pasted text that is a whole program. Followed, never run."""

import re
from collections.abc import Iterable

from ongpu.facts.program import Program, Script
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Source
from ongpu.sources.python.project import Project
from ongpu.sources.python.text import NotPython, concerns, is_notebook, parse
from ongpu.sources.python.walk import Walk

_PROGRAM = lazy(r"^\s{0,200}(?:import [A-Za-z_]|from [\w.]{1,100} import |def \w|class \w|for [\w, ()]{1,80} in [^\n]{1,200}:|with torch\.)", re.MULTILINE)


def script(name: str, text: str, project: Project | None = None) -> Script | None:
    """What the program does; None where it has nothing to do with a GPU framework. NotPython where it is no Python."""
    if not concerns(text):
        return None
    file, tree = parse(name, text)
    return Walk(file, tree, project).script()


def reading(project: Project | None) -> Source:
    """The source, reading with that project at hand: imports of its files are followed."""

    def read(evidence: Evidence) -> Iterable[Fact]:
        found = script(evidence.origin, _text(evidence), project)
        if found is not None:
            yield Program(scripts=(found,))

    return Source(kind="python", read=read, looks_like=looks_like, gives=(Program,))


def read(evidence: Evidence) -> Iterable[Fact]:
    """The program."""
    yield from reading(None).read(evidence)


def looks_like(evidence: Evidence) -> bool:
    """Whether it is a program of its own: imports or definitions, and all of it Python."""
    text = evidence.text
    if not concerns(text) or not (_PROGRAM.search(text) or is_notebook(text)):
        return False
    try:
        parse(evidence.origin, _text(evidence))
    except NotPython:
        return False
    return True


def _text(evidence: Evidence) -> str:
    """The text, each line at its number in the original."""
    lines = evidence.lines()
    if not evidence.numbers and evidence.first_line == 1:
        return evidence.text
    placed: dict[int, str] = {}
    for number, line in lines:
        placed[number] = line
    last = max(placed, default=0)
    return "\n".join(placed.get(number, "") for number in range(1, min(last, 200_000) + 1))


SOURCES = (Source(kind="python", read=read, looks_like=looks_like, gives=(Program,)),)
