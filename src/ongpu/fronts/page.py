"""How a page of text is laid out: its language, its width, its colours; rows of columns that fit."""

from collections.abc import Sequence

from ongpu.lazy import dataclass
from ongpu.report.layout import paint, width_of, wrap


@dataclass(frozen=True)
class Page:
    """lang: "en" or "zh". width: columns."""

    lang: str
    width: int
    colour: bool

    def say(self, english: str, chinese: str) -> str:
        """A phrase in the page's language."""
        return chinese if self.lang == "zh" else english

    def paint(self, text: str, colour: str) -> str:
        """The text in a colour, where there are colours."""
        return paint(text, colour, self.colour)

    def below(self, text: str, indent: int, colour: str = "", most: int = 2) -> list[str]:
        """The text under a row, in at most so many lines."""
        lines = folded(text, max(20, self.width - indent))
        if len(lines) > most:
            lines = [*lines[: most - 1], cut(" ".join(lines[most - 1 :]), max(20, self.width - indent))]
        return [" " * indent + (self.paint(line, colour) if colour else line) for line in lines]


def folded(text: str, width: int) -> list[str]:
    """The text in lines of at most so many columns; a word that is longer goes on in the next line."""
    lines = []
    for line in wrap(text, width):
        while width_of(line) > width:
            head = cut(line, width + 1).removesuffix("…") or line[0]
            lines.append(head)
            line = line[len(head) :]
        lines.append(line)
    return lines


def cut(text: str, width: int) -> str:
    """The text in at most so many columns, an ellipsis where something is missing."""
    if width_of(text) <= width:
        return text
    kept, used = [], 1
    for char in text:
        used += width_of(char)
        if used > width:
            break
        kept.append(char)
    return "".join(kept).rstrip() + "…"


def left(text: str, width: int) -> str:
    """The text in exactly so many columns."""
    text = cut(text, width)
    return text + " " * (width - width_of(text))


def right(text: str, width: int) -> str:
    """The same, at the right."""
    text = cut(text, width)
    return " " * (width - width_of(text)) + text


def row(cells: Sequence[tuple[str, int]]) -> str:
    """Cells side by side, two blanks between; a negative width: at the right."""
    return "  ".join(left(text, width) if width > 0 else right(text, -width) for text, width in cells).rstrip()
