"""The live view of `ongpu top` (Textual)."""

import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from ongpu.fronts.top import lines
from ongpu.fronts.top.dialogs import Page, Sure, Which
from ongpu.fronts.top.live import Feeding, Live
from ongpu.fronts.top.rows import Row, Rows, shades
from ongpu.fronts.top.spoken import say
from ongpu.hosts import stop
from ongpu.report.layout import width_of, wrap
from ongpu.report.top import words
from ongpu.report.top.as_text import clock
from ongpu.report.top.view import Card, Program, View, in_order, only_user, programs_in_order
from ongpu.report.top.words import fit

BY = ("mem", "cpu", "util", "user", "pid")
GPUS_BY = ("index", "util", "mem", "temp", "power")
POLL = 0.5  # seconds between two looks at what the feed brought
NOTE = 6.0  # seconds for which a note stands in the last line
MOST_WORDS = 14  # lines of the verdict
TALL = 36  # lines from which graphs and details get more room


class Top(App[None]):
    """All GPUs, their history, the processes and the verdicts."""

    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    Static { height: auto; width: 100%; }
    #title { text-style: bold; height: 1; }
    .head { height: 1; color: $foreground-muted; text-style: underline; }
    #gpus { height: 8; }
    #history { height: 3; }
    #processes { height: 1fr; min-height: 2; }
    #told { height: 4; }
    #keys { height: 1; color: $foreground-muted; }
    #filter { display: none; height: 1; border: none; padding: 0; }
    #filter.asked { display: block; }
    #keys.asked { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", show=False), Binding("question_mark", "help", show=False), Binding("slash", "ask_user", show=False),
        Binding("s", "sort", show=False), Binding("o", "order", show=False), Binding("t", "tree", show=False), Binding("g", "only", show=False),
        Binding("k", "end", show=False), Binding("space", "pause", show=False), Binding("l", "language", show=False),
        Binding("d", "dark", show=False), Binding("enter", "whole", show=False), Binding("escape", "leave", show=False),
    ]  # fmt: skip
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, feed: Feeding, live: Live, lang: str, *, user: str | None = None, by: str = "index") -> None:
        super().__init__()
        self.feed, self.live, self.lang, self.user = feed, live, lang, user
        self.by = by if by in BY else "mem"
        self.gpus_by, self.branches, self.only, self.paused = by if by in GPUS_BY[1:] else "index", False, False, False
        self.shown: View | None = None
        self.note = ""
        self.shades: dict[str, Style] = {}
        self.texts: dict[str, Static] = {}
        self.came: deque[Mapping[str, Any]] = deque(maxlen=20_000)
        self.programs: dict[str, tuple[Program, int]] = {}  # row -> what it is, and on which GPU
        self.ended = threading.Event()

    def compose(self) -> ComposeResult:
        """The parts, from top to bottom."""
        yield Static(id="title", markup=False)
        yield Static(id="gpu-head", classes="head", markup=False)
        yield Rows(id="gpus")
        yield Static(id="history", markup=False)
        yield Static(id="process-head", classes="head", markup=False)
        yield Rows(id="processes")
        with Vertical(id="told"):
            yield Static(id="words", markup=False)
        yield Static(id="keys", markup=False)
        yield Input(id="filter")

    def on_mount(self) -> None:
        """Begin to listen."""
        self.theme = "textual-light" if _light_terminal() else "textual-dark"
        self.shades = shades(self.get_css_variables())
        self.gpus, self.processes = self.query_one("#gpus", Rows), self.query_one("#processes", Rows)
        self.texts = {
            name: self.query_one(f"#{name}", Static) for name in ("title", "gpu-head", "history", "process-head", "words", "keys")
        }
        self.gpus.focus()
        threading.Thread(target=self._listen, daemon=True).start()
        self.set_interval(POLL, self.poll)
        self.draw()

    def on_unmount(self) -> None:
        """The listener ends, and with it the child."""
        self.ended.set()

    def _listen(self) -> None:
        """In a thread of its own: waits for the feed."""
        while not self.ended.is_set():
            message = self.feed.next(0.5)
            if message is not None:
                self.came.append(message)
        self.feed.close()

    def poll(self) -> None:
        """Take what came; draw where a look was among it, or something changed."""
        changed = False
        while self.came:
            changed = bool(self.live.take(self.came.popleft())) or changed
        changed = bool(self.live.tick()) or changed
        if changed and not self.paused:
            self.draw()

    def draw(self) -> None:
        """The whole picture from the view; what is the same is not drawn again."""
        self.shown = self.live.view()
        self.redraw()

    def redraw(self) -> None:
        """The picture of the view that is held."""
        view = self.shown
        if view is None or not self.texts or self.size.width < 20:
            return
        width, lang = self.size.width, self.lang
        self._tell("title", _title(view, self, width))
        self._tell("gpu-head", lines.gpu_header(width, lang))
        self.gpus.put([(str(card.index), lines.gpu_line(card, width, lang)) for card in in_order(view, self.gpus_by)])
        card, rows = self.card(), self._processes(view, width)
        self._rooms(len(view.cards), len(rows))
        self._tell("history", _history(card, self, width) if card else "")
        self._tell("process-head", lines.program_header(width, lang))
        self.processes.put(rows)
        self._details()
        self._tell("keys", Text(self.note or fit(say("keys", lang), width), "bold reverse" if self.note else "", no_wrap=True))

    def _tell(self, name: str, text: str | Text) -> None:
        widget = self.texts[name]
        told = text.markup if isinstance(text, Text) else text
        if getattr(widget, "told", None) != told:
            widget.told = told  # type: ignore[attr-defined]
            widget.update(text if isinstance(text, Text) else Text(text, no_wrap=True))

    def _rooms(self, cards: int, processes: int) -> None:
        """How many lines each part gets. What the processes do not need, the words get."""
        height = self.size.height
        rooms = {"gpus": max(min(cards, (height - 8) // 2), 1), "history": 9 if height >= TALL else 3 if height >= 20 else 0}
        left = height - 4 - rooms["gpus"] - rooms["history"] - max(processes, 2)
        rooms["told"] = min(max(left, 4 if height >= 16 else 1), MOST_WORDS)
        if rooms != getattr(self, "rooms", None):
            self.rooms = rooms
            for name, room in rooms.items():
                widget = self.query_one(f"#{name}")
                widget.styles.height = room
                widget.display = room > 0

    def card(self) -> Card | None:
        """The chosen GPU."""
        key = self.gpus.key
        return next((card for card in self.shown.cards if str(card.index) == key), None) if self.shown else None

    def _processes(self, view: View, width: int) -> list[Row]:
        chosen = self.card()
        found = [
            (program, card.index)
            for card in view.cards
            if not self.only or chosen is None or card.index == chosen.index
            for program in only_user(card, self.user)
        ]
        order = {id(p): place for place, p in enumerate(programs_in_order(tuple(p for p, _ in found), self.by))}
        found.sort(key=lambda item: order[id(item[0])])
        self.programs = {f"{index}:{program.pid}": (program, index) for program, index in found}
        rows: list[Row] = []
        for program, index in found:
            key = f"{index}:{program.pid}"
            rows.append((key, lines.program_line(program, index, width, self.lang)))
            below = program.children if self.branches else ()
            for place, child in enumerate(below):
                rows.append((f"{key}:{child[0]}", lines.child_line(child, place == len(below) - 1, width)))
        if not rows:
            empty = say("none_of", self.lang, user=self.user) if self.user else say("none", self.lang)
            rows.append(("", ((f"  {empty}", "dim"),)))
        return rows

    def chosen(self) -> tuple[Program, int] | None:
        """The process that the cursor is on, and its GPU."""
        key = self.processes.key or ""
        return self.programs.get(":".join(key.split(":")[:2]))

    def _details(self) -> None:
        """Below: of the process, where the cursor is there, its whole command; always the verdict of the GPU."""
        card, parts = self.card(), []
        if self.processes.has_focus and (found := self.chosen()) and self.shown:
            program, index = found
            card = next((one for one in self.shown.cards if one.index == index), None)
            parts.append((f"{program.pid}: {program.command or words.what(program)}", "bold"))
        parts += list(lines.told(card, self.lang)) if card else []
        parts += [(words.headline(f, self.lang), "red") for f in self.shown.findings] if self.shown else []
        text = Text()
        for line, shade in parts:
            for part in wrap(line, max(self.size.width - 1, 20)):
                text.append(part + "\n", self.shades.get(shade, Style()))
        self._tell("words", text)

    def on_rows_moved(self, event: Rows.Moved) -> None:
        """The cursor is elsewhere: what is told of it as well."""
        if event.rows is self.gpus:
            self.redraw()
        else:
            self._details()

    def on_resize(self, event: events.Resize) -> None:
        """Another size: all lines anew."""
        self.call_after_refresh(self.redraw)

    def action_help(self) -> None:
        """The keys."""
        self.push_screen(Page([(say("help", self.lang), "")]))

    def action_whole(self) -> None:
        """All that is known of what the cursor is on."""
        found = self.chosen() if self.processes.has_focus else None
        card = self.card() if found is None else next((c for c in (self.shown.cards if self.shown else ()) if c.index == found[1]), None)
        if card is not None and self.shown is not None:
            self.push_screen(Page(list(lines.whole(card, found[0] if found else None, self.shown, self.lang))))

    def action_sort(self) -> None:
        """The next order of the processes."""
        self.by = BY[(BY.index(self.by) + 1) % len(BY)]
        self.redraw()

    def action_order(self) -> None:
        """The next order of the GPUs."""
        self.gpus_by = GPUS_BY[(GPUS_BY.index(self.gpus_by) + 1) % len(GPUS_BY)]
        self.redraw()

    def action_tree(self) -> None:
        """With or without the processes below."""
        self.branches = not self.branches
        self.redraw()

    def action_only(self) -> None:
        """The processes of all GPUs, or of the chosen one."""
        self.only = not self.only
        self.redraw()

    def action_pause(self) -> None:
        """The picture stands still, or goes on; what happens meanwhile is kept."""
        self.paused = not self.paused
        if self.paused:
            self.redraw()
        else:
            self.draw()

    def action_language(self) -> None:
        """The other language."""
        self.lang = "en" if self.lang == "zh" else "zh"
        self.redraw()

    def action_dark(self) -> None:
        """The other theme."""
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"
        self.shades = shades(self.get_css_variables())
        self.gpus.refresh()
        self.processes.refresh()
        self.redraw()

    def action_ask_user(self) -> None:
        """A line to type a user in."""
        field = self.query_one("#filter", Input)
        field.placeholder = say("ask_user", self.lang)
        field.value = self.user or ""
        field.add_class("asked")
        self.texts["keys"].add_class("asked")
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The user to show; all where nothing was typed."""
        self.user = event.value.strip() or None
        self.action_leave()

    def action_leave(self) -> None:
        """Out of the line of typing; without one, all users are shown again."""
        field = self.query_one("#filter", Input)
        if field.has_class("asked"):
            field.remove_class("asked")
            self.texts["keys"].remove_class("asked")
            self.processes.focus()
        else:
            self.user = None
        self.redraw()

    def action_end(self) -> None:
        """Ask twice, then send the signal to the process that was shown, if it is still that one."""
        found = self.chosen() if self.processes.has_focus else None
        if found is None:
            self.say(say("choose", self.lang))
            return
        program = found[0]
        if not program.visible or program.start is None:
            self.say(say("not_seen", self.lang, pid=program.pid))
        elif not self.live.demo and not stop.may(program.uid):
            self._told_of("denied", program)
        else:
            self.push_screen(Which(program, self.lang), lambda signal: self._ask_again(program, signal))

    def _ask_again(self, program: Program, signal: str | None) -> None:
        if signal:
            began = clock(started_at(program.start or 0)) if not self.live.demo else "-"
            self.push_screen(Sure(program, signal, began, self.lang), lambda sure: self._send(program, signal) if sure else None)

    def _send(self, program: Program, signal: str) -> None:
        problem = "simulated" if self.live.demo else stop.send(program.pid, program.start or 0, signal)
        self._told_of(problem or "sent", program, signal)

    def _told_of(self, name: str, program: Program, signal: str = "") -> None:
        self.say(say(name, self.lang, pid=program.pid, user=program.user or program.uid, signal=f"SIG{signal}"))

    def say(self, text: str) -> None:
        """In the last line, for some seconds."""
        self.note = text
        self.set_timer(NOTE, lambda: self._unsay(text))
        self.redraw()

    def _unsay(self, text: str) -> None:
        if self.note == text:
            self.note = ""
            self.redraw()


def started_at(ticks: int) -> float:
    """Ticks since boot as seconds since the epoch."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def _light_terminal() -> bool:
    """Whether the terminal says that its background is light: COLORFGBG "0;15"."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


def _title(view: View, app: Top, width: int) -> str:
    lang = app.lang
    if not view.up and view.reason == "starting":
        return fit(say("starting", lang), width)
    more = [say("paused", lang)] if app.paused else []
    more += [say("user_is", lang, user=app.user)] if app.user else []
    if app.only and (card := app.card()):
        more.append(say("only_gpu", lang, index=card.index))
    more += [say("by", lang, by=app.by)] if app.by != BY[0] else []
    told = words.title(view, lang, more)
    if not view.up:
        reason = words.code(view.code, lang) if view.code is not None else view.reason
        told = " | ".join([words.word("down", lang, reason=reason), *more])
    now = clock(view.time) if view.time else ""
    left = fit(told, max(width - len(now) - 1, 0))
    return f"{left} {now}"


def _history(card: Card, app: Top, width: int) -> Text:
    """Three graphs of the chosen GPU."""
    lang, tall, points = app.lang, 3 if app.size.height >= TALL else 1, list(app.live.history.get(card.index, ()))
    head = say("of_gpu", lang, index=card.index) + " "
    label = width_of(head) + max(width_of(say(name, lang)) for name in ("util", "memory", "power")) + 1
    room = max(width - label - 9, 10)
    figures, share = words.figures(card), card.memory_share()
    now = {"util": figures["util"], "memory": "-" if share is None else f"{share:.0%}", "power": figures["power"].partition("/")[0] + " W"}
    text = Text(no_wrap=True)
    for place, name in enumerate(("util", "memory", "power")):
        shade = app.shades[("cyan", "green", "yellow")[place]]
        drawn = lines.graph(lines.thinned([point[place] for point in points], room), room, tall)
        for row, line in enumerate(drawn):
            last = row == tall - 1
            told = (head if place == 0 else " " * width_of(head)) + say(name, lang)
            text.append(fit(told if last else "", label))
            text.append(line, Style(color=shade.color))
            text.append((fit(" " + now[name], 8) if last and card.condition == "ok" else "") + "\n")
    text.rstrip()
    return text
