"""Columns, colours and line breaks of a terminal; Chinese characters are two columns wide and break anywhere."""

from unicodedata import combining, east_asian_width

from ongpu.lazy import lazy

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
_WIDE = r"\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uff60"
_OPEN, _CLOSE = "（《「『“‘", "，。；：、！？）》」』”’…"
# An opening bracket stays with what follows it, a closing one with what stands before.
_TOKENS = lazy(rf"[{_OPEN}]*(?:[^\s{_WIDE}{_OPEN}{_CLOSE}]+|[{_WIDE}]|[{_OPEN}{_CLOSE}])[{_CLOSE}]*|\s+|[{_OPEN}{_CLOSE}]+")

_SPACES = lazy(r"(\s+)")


def width_of(text: str) -> int:
    """Columns that the text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def paint(text: str, colour: str, on: bool) -> str:
    """The text in a colour, where colours are on."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if on and text else text


def cut(text: str, width: int, mark: str = "...") -> str:
    """The text in at most `width` columns: where it is longer its beginning, and the mark."""
    if width_of(text) <= width:
        return text
    room = max(0, width - width_of(mark))
    text = text[:room]
    while width_of(text) > room:
        text = text[:-1]
    return text + mark


def wrap(text: str, width: int, hard: bool = False) -> list[str]:
    """The text in lines of at most `width` columns; a word that is longer stands alone, or is broken (hard). Line ends in it are kept."""
    lines: list[str] = []
    if hard:
        for line in wrap(text, width):
            while width_of(line) > width:
                end = next(n for n in range(min(len(line), width), 0, -1) if width_of(line[:n]) <= width)
                lines.append(line[:end])
                line = line[end:]
            lines.append(line)
        return lines
    for paragraph in text.split("\n"):
        line = ""
        for token in _SPACES.split(paragraph) if paragraph.isascii() else _TOKENS.findall(paragraph):
            if token.isspace():
                line += " " if line else ""
            elif line and width_of(line) + width_of(token) > width:
                lines.append(line.rstrip())
                line = token
            else:
                line += token
        if line.strip():
            lines.append(line.rstrip())
    return lines
