"""Whether a text is a program that names a GPU framework: then it is followed as one, and its lines are not read as output."""

import io
import re
import tokenize
from collections.abc import Iterator

from ongpu.facts.source_text import parses
from ongpu.knowledge.program_words import WORDS
from ongpu.lazy import lazy

LONGEST = 1 << 20  # characters
_STARTS = lazy(r"^(?:import [A-Za-z_]|from [\w.]{1,100} import |def \w|class \w)", re.MULTILINE)

_ERROR = lazy(
    r"^[ \t]{0,20}(?:Traceback \(most recent|[\w.]{0,80}(?:Error|Exception): |CUDA error|Could not load|错误|报错)|"
    r"error while loading|cannot open shared object|out of memory",
    re.MULTILINE,
)


def is_program(text: str) -> bool:
    """Whether all of it is Python, with imports or definitions and a word of a GPU framework."""
    return len(text) <= LONGEST and bool(_STARTS.search(text)) and any(word in text for word in WORDS) and parses(text)


def told(text: str) -> Iterator[tuple[int, str]]:
    """What a person says in a program, line by line. The comments behind code: what was seen there, or printed; those on lines of their own
    explain at large. And the error that was pasted below as a text of its own: a string at the margin that is no docstring."""
    started = False  # the first string is the program's docstring
    fresh = True  # a statement begins here
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                if token.line[: token.start[1]].strip():
                    yield token.start[0], token.string.lstrip("# ")
            elif token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
                if token.type == tokenize.STRING and fresh and started and not token.start[1] and _ERROR.search(token.string):
                    yield from enumerate(token.string.strip("\"'").split("\n"), token.start[0])
                fresh = token.type == tokenize.NEWLINE
                started = True
    except (tokenize.TokenError, SyntaxError, RecursionError):  # it was parsed, so only ends that ast forgives
        return
