"""What lies over the live view: the help, the whole of a GPU or process, the two questions before a process is ended."""

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from ongpu.fronts.top.rows import Part
from ongpu.fronts.top.spoken import say
from ongpu.report.top.view import Program

T = TypeVar("T")


class Over(ModalScreen[T]):
    """A box over the view."""

    DEFAULT_CSS = """
    Over { align: center middle; }
    Over > VerticalScroll { width: 90%; max-width: 100; height: auto; max-height: 90%; border: round $primary; padding: 0 1; background: $surface; scrollbar-size-vertical: 1; }
    """

    def box(self, parts: Sequence[Part]) -> ComposeResult:
        """The parts, one a line."""
        styles = self.app.shades  # type: ignore[attr-defined]
        text = Text()
        for line, shade in parts:
            text.append(line + "\n", styles.get(shade, styles[""]))
        text.rstrip()
        with VerticalScroll():
            yield Static(text, markup=False)


class Page(Over[None]):
    """Text to read; Esc, Enter, q or ? closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q,question_mark", "dismiss", show=False)]

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__()
        self.parts = parts

    def compose(self) -> ComposeResult:
        """The box."""
        yield from self.box(self.parts)


class Which(Over[str | None]):
    """First question: which signal."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "dismiss('TERM')", show=False), Binding("9", "dismiss('KILL')", show=False),
        Binding("escape,n,q", "dismiss(None)", show=False),
    ]  # fmt: skip

    def __init__(self, program: Program, lang: str) -> None:
        super().__init__()
        self.program, self.lang = program, lang

    def compose(self) -> ComposeResult:
        """The box."""
        p, lang = self.program, self.lang
        yield from self.box([
            (say("end", lang, pid=p.pid, user=p.user or p.uid or "?"), "bold"), ("", ""), (p.command or "-", ""), ("", ""), (say("end_keys", lang), ""),
        ])  # fmt: skip


class Sure(Over[bool]):
    """Second question: this very process."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "dismiss(True)", show=False), Binding("escape,n,q", "dismiss(False)", show=False)]

    def __init__(self, program: Program, signal: str, started: str, lang: str) -> None:
        super().__init__()
        self.program, self.signal, self.started, self.lang = program, signal, started, lang

    def compose(self) -> ComposeResult:
        """The box."""
        p, lang = self.program, self.lang
        yield from self.box([
            (say("sure", lang, signal=f"SIG{self.signal}"), "red"), ("", ""),
            (f"pid {p.pid} | {p.user or p.uid or '?'} | {say('started', lang, time=self.started)}", "bold"), (p.command or "-", ""), ("", ""),
            (say("sure_keys", lang), ""),
        ])  # fmt: skip
