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


def is_program(text: str) -> bool:
    """Whether all of it is Python, with imports or definitions and a word of a GPU framework."""
    return len(text) <= LONGEST and bool(_STARTS.search(text)) and any(word in text for word in WORDS) and parses(text)


def comments(text: str) -> Iterator[tuple[int, str]]:
    """The comments behind code, each with its line: what was seen there, or printed. Those on lines of their own explain at large."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip():
                yield token.start[0], token.string.lstrip("# ")
    except (tokenize.TokenError, SyntaxError, RecursionError):  # it was parsed, so only ends that ast forgives
        return
