"""A list of lines with a cursor, for the live view: only lines that changed are drawn anew."""

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

Part = tuple[str, str]  # a text, and its shade: "", "red", "yellow", "green", "dim", "bold"
Row = tuple[str, tuple[Part, ...]]  # what the line is about, and its parts
# Shades by the names of the theme's own variables, which are readable on light and on dark.
THEME = {"red": "text-error", "yellow": "text-warning", "green": "text-success", "cyan": "text-primary"}


def shades(variables: dict[str, str]) -> dict[str, Style]:
    """The styles of the shades in a theme."""
    found = {"": Style(), "bold": Style(bold=True), "dim": Style(color=_colour(variables.get("foreground-muted") or "grey62"))}
    for name, variable in THEME.items():
        found[name] = Style(color=_colour(variables.get(variable) or name), bold=name == "red")
    found["cursor"] = Style(bgcolor=_colour(variables.get("primary-muted") or "default"), bold=True)
    return found


def _colour(told: str) -> str:
    from textual.color import Color, ColorParseError

    try:
        return Color.parse(told).hex6
    except ColorParseError:  # "auto 87%": the terminal's own
        return "default"


class Rows(ScrollView, can_focus=True):
    """Lines; the cursor stays on what it is about when the lines move."""

    DEFAULT_CSS = "Rows { scrollbar-size-vertical: 1; overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False), Binding("down", "move(1)", show=False), Binding("home", "move(-9999)", show=False),
        Binding("end", "move(9999)", show=False), Binding("pageup", "page(-1)", show=False), Binding("pagedown", "page(1)", show=False),
    ]  # fmt: skip

    class Moved(Message):
        """The cursor is on another line."""

        def __init__(self, rows: "Rows") -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> "Rows":
            """The widget."""
            return self.rows

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.rows: list[Row] = []
        self.cursor = 0

    @property
    def key(self) -> str | None:
        """What the cursor's line is about."""
        return self.rows[self.cursor][0] if self.cursor < len(self.rows) else None

    def put(self, rows: Sequence[Row]) -> None:
        """The lines that are shown from now on."""
        before, key = self.rows, self.key
        self.rows = list(rows)
        places = {row[0]: place for place, row in reversed(list(enumerate(self.rows)))}
        cursor = places.get(key, min(self.cursor, max(len(self.rows) - 1, 0))) if key else self.cursor
        moved, self.cursor = cursor != self.cursor, min(cursor, max(len(self.rows) - 1, 0))
        if len(before) != len(self.rows):
            self.virtual_size = Size(0, len(self.rows))
            self.refresh()
        else:
            top = round(self.scroll_offset.y)
            for place, (old, new) in enumerate(zip(before, self.rows, strict=True)):
                if old != new and top <= place < top + self.size.height:
                    self.refresh(Region(0, place - top, self.size.width, 1))
            if moved:
                self.refresh()
        if moved:
            self._show()

    def action_move(self, step: int) -> None:
        """The cursor up or down by so many lines."""
        self.cursor = min(max(self.cursor + step, 0), max(len(self.rows) - 1, 0))
        self._show()
        self.refresh()
        self.post_message(self.Moved(self))

    def action_page(self, step: int) -> None:
        """The cursor up or down by what is seen."""
        self.action_move(step * max(self.size.height - 1, 1))

    def _show(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)

    def on_click(self, event: Click) -> None:
        """The cursor to where the mouse is."""
        self.action_move(round(self.scroll_offset.y) + event.y - self.cursor)

    def on_focus(self) -> None:
        """What is told below follows the focus."""
        self.post_message(self.Moved(self))

    def render_line(self, y: int) -> Strip:
        """One line of what is seen."""
        place, width = y + round(self.scroll_offset.y), self.size.width
        if place >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        styles: dict[str, Style] = self.app.shades  # type: ignore[attr-defined]
        chosen = place == self.cursor
        mark = styles["cursor"] if chosen and self.has_focus else Style(bold=True) if chosen else Style()
        segments = [Segment(text, styles.get(shade, styles[""]) + mark) for text, shade in self.rows[place][1]]
        return Strip(segments).adjust_cell_length(width, self.rich_style + mark).apply_style(self.rich_style)
