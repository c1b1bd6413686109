"""Python tracebacks: plain, IPython, rich, pytest; with the prefixes of ranks, workers and log daemons; several in one log."""

import re
from collections.abc import Iterable, Iterator

from ongpu.facts.code import Frame, Raised, Traceback
from ongpu.lazy import dataclass, field, lazy
from ongpu.model import Evidence, Fact, Ref, Source

MAX_RAISED = 40
MAX_LINES = 200_000
MAX_MESSAGE = 24  # lines of one message
MAX_WIDTH = 2000

_PREFIX = lazy(
    r"^(?P<who>(?:\s*(?:"
    r"\[rank\d{1,5}\]:"  # torchrun
    r"|\[?default\d{1,4}\]?:"  # torchrun --tee
    r"|\([\w.:+\- ]{1,60}pid=\d{1,9}[^)\n]{0,80}\)"  # Ray, vLLM
    r"|\[\d{1,4},\d{1,4}\]<std(?:err|out)>:"  # mpirun, horovodrun
    r"|\d{1,4}: (?=\s|Traceback|[A-Z]\w*(?:Error|Exception))"  # srun -l
    r"|(?:INFO|ERROR|WARNING|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[\w./]{1,60}:\d{1,6}\]"
    r"|[\w./]{1,60}:\d{1,6}\])"  # vLLM
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.\-]{1,64} [\w.\-/@]{1,64}(?:\[\d{1,9}\])?:"  # journald
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z?(?: (?:std(?:err|out) F|[-|] ?\w+ ?[-|]|ERROR|\[ERROR\]))?"
    r"|[\w.\-]{1,64} +\| "  # docker compose
    r"|E   "  # pytest
    r"))*) ?(?P<rest>.*)$"
)
_FILE = lazy(r'File "(?P<file>[^"\n]{1,400})", line (?P<line>\d{1,7})(?:, in (?P<function>[^\n]{1,200}))?')
_NEW_IPYTHON = lazy(r"^File (?P<file>[^\"\n]{1,400}?):(?P<line>\d{1,7})(?:, in (?P<function>[^\n]{1,200}))?$")
_CELL = lazy(
    r"^(?:Cell |Input )In ?\[(?P<cell>\d{1,5})\](?:, line (?P<line>\d{1,6})|, in (?P<function>[^\n]{1,200}))?"
)
_IPYTHON = lazy(
    r"^(?P<file>(?:[~./]|[A-Za-z]:\\|<ipython)[^\n:]{0,300}?) in (?P<function><module>"
    r"|[\w.<>]{1,120})(?:\(.{0,400})?$"
)
_LINK = lazy(r"^\[([^\]\n]{1,300})\]\(https?://[^)\n]{0,200}\)")  # Colab's file names, copied as links
_ARROW = lazy(r"^-{1,8}>\s*(?P<line>\d{1,7})(?: (?P<code>.*))?$")
_RICH = lazy(
    r"^[│|]\s*(?P<file>[^\s│|❱][^│\n]{0,300}?):(?P<line>\d{1,7}) in (?P<function>[\w.<>]{1,120})\s*[│|]?\s*$"
)
_RICH_ARROW = lazy(r"^[│|]\s*[❱>]\s*(?P<line>\d{1,7})\s*[│|]\s?(?P<code>.*?)\s*[│|]?\s*$")
_ERROR = lazy(
    r"^(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,8}(?:[A-Z]\w{0,80}?(?:Error|Exception|Interrupt|Fault|Exit"
    r"|LimitHit|Unsupported\w{0,20})"
    r"|Unsupported|StopIteration|error|ResourceExhausted))"
    r"(?: \(see above for traceback\))?(?:: ?(?P<message>.*)| *(?P<bare>))$"
)
_CAUGHT = lazy(r"^Caught (?P<type>\w{1,80}) in .{1,120}\.$")
_CODE = lazy(
    r"^[\w.\[\]'\", ]{1,80}\s?(?:=|\+=)\s?\S|^(?:return |yield |with |for"
    r" )?[A-Za-z_][\w.]{1,80}\(.{0,200}\)?(?:\s*#.*)?$"
)
_STOP = ("traceback (most", "during handling of", "the above exception", "original traceback")


@dataclass
class _State:
    frames: list[Frame] = field(default_factory=list)
    waiting: tuple[str, int, str, Ref] | None = None  # a frame whose code comes next
    error: str | None = None
    message: list[str] = field(default_factory=list)
    ref: Ref | None = None
    under: tuple[Frame, ...] = ()
    above: list[Frame] = field(default_factory=list)  # lines of code without a "File ..." before them

    def close(self) -> Iterator[Raised]:
        """The exception that was being read."""
        if self.error and self.ref:
            yield Raised(error=self.error, message="\n".join(self.message).strip(), frames=self.under, ref=self.ref)
        self.error, self.message, self.ref, self.under = None, [], None, ()

    def frame(self, code: str = "", ref: Ref | None = None) -> None:
        """Add the frame that waited for its code."""
        if self.waiting:
            file, line, function, at = self.waiting
            self.frames.append(Frame(file, line, function, code.strip(), ref or at))
            self.waiting = None


def _header(state: _State, rest: str, ref: Ref) -> bool:
    """Whether the line opens a frame; it is noted."""
    text = _LINK.sub(r"\1", rest.strip())
    for pattern in (_FILE, _NEW_IPYTHON, _RICH):
        match = pattern.search(text) if pattern is _FILE else pattern.match(text)
        if match:
            state.frame()
            state.waiting = (match["file"].strip(), int(match["line"]), (match["function"] or "").strip(), ref)
            return True
    if match := _CELL.match(text):
        state.frame()
        state.waiting = (f"<cell {match['cell']}>", int(match["line"] or 0), match["function"] or "<module>", ref)
        return True
    if match := _IPYTHON.match(text):
        state.frame()
        state.waiting = (match["file"], 0, match["function"], ref)
        return True
    return False


def _arrow(state: _State, rest: str, ref: Ref) -> bool:
    text = rest.strip()
    match = _ARROW.match(text) or _RICH_ARROW.match(text)
    if not match:
        return False
    if state.waiting:
        file, line, function, at = state.waiting
        state.waiting = (file, line or int(match["line"]), function, at)
        state.frame(match["code"] or "", ref)
    elif match["code"]:
        state.frames.append(Frame("", int(match["line"]), "", match["code"].strip(), ref))
    return True


def _lines(evidence: Evidence) -> Iterator[tuple[str, Ref, str]]:
    """(who, reference, the line without prefixes)."""
    for count, (number, line) in enumerate(evidence.lines()):
        if count > MAX_LINES:
            return
        match = _PREFIX.match(line[:MAX_WIDTH])
        who = re.sub(r"\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d|[.,]\d+|:\d+\]", "", match["who"]).strip() if match else ""
        yield who, evidence.ref(number, line), match["rest"] if match else line[:MAX_WIDTH]


def parse(evidence: Evidence) -> Iterator[Raised]:
    """Every exception that the text shows."""
    states: dict[str, _State] = {}
    for who, ref, rest in _lines(evidence):
        state = states.setdefault(who, _State())
        text = rest.strip()
        low = text.lower()
        if any(stop in low for stop in _STOP):
            yield from state.close()
            state.frame()
            if "traceback (most recent" in low:
                state.frames.clear()
            continue
        if _header(state, rest, ref):
            yield from state.close()
            continue
        if _arrow(state, rest, ref):
            continue
        error = _ERROR.match(text.strip("│| ") if text[:1] in "│|" else text)
        if error and (error["message"] is not None or state.frames or state.waiting) and _plausible(error, rest, state):
            if error["type"] == state.error and error["message"] in state.message:
                continue
            yield from state.close()
            state.frame()
            state.error, state.message, state.ref = error["type"], [error["message"] or ""], ref
            state.under, state.frames = tuple(state.frames) or tuple(state.above), []
            state.above = []
        elif state.waiting and text and not text.startswith(("^", "~")) and rest[:1] in (" ", "\t") and not _numbered(text):
            state.frame(text, ref)
        elif not state.error and _CODE.search(text) and len(text) < 300 and not text.endswith("."):
            state.above = [*state.above[-3:], Frame("", 0, "", text, ref)]
        elif state.error:
            if (not text and len(state.message) > 1) or len(state.message) >= MAX_MESSAGE:
                yield from state.close()
            else:
                state.message.append(text)
    for state in states.values():
        yield from state.close()
        state.frame()
        if state.frames:
            last = state.frames[-1]
            yield Raised(error="", message="", frames=tuple(state.frames), ref=last.ref)


def _plausible(error: re.Match[str], rest: str, state: _State) -> bool:
    """Whether the line is an exception and not a word of prose or of code."""
    kind = error["type"].rsplit(".", 1)[-1]
    if kind == "error" and "." not in error["type"]:
        return False
    indent = len(rest) - len(rest.lstrip())
    return indent < 6 or bool(state.frames)


def _numbered(text: str) -> bool:
    """Whether it is one of IPython's or rich's lines of context ("     41     x = 1")."""
    return bool(re.match(r"^(?:[│|]\s*)?\d{1,7}(?:\s|$)", text)) or text[:1] in "│╭╰|"


def read(evidence: Evidence) -> Iterable[Fact]:
    """The exceptions of the text, with their frames."""
    raised: list[Raised] = []
    for item in parse(evidence):
        same = any(r.error == item.error and r.message == item.message and len(r.frames) >= len(item.frames) for r in raised)
        if not same:
            raised.append(item)
        if len(raised) >= MAX_RAISED:
            break
    if not raised:
        return
    raised.sort(key=lambda r: r.ref.line)
    named = [r for r in raised if r.error]
    main = next((r for r in named if r.frames), named[0] if named else raised[0])
    refs = tuple(dict.fromkeys(ref for r in raised[:4] for ref in r.cite()))
    yield Traceback(
        frames=main.frames,
        error=main.error.rsplit(".", 1)[-1] or None,
        message=main.message or None,
        raised=tuple(raised),
        refs=refs,
    )


def looks_like(evidence: Evidence) -> bool:
    """Whether an exception or a frame may stand in it."""
    text = evidence.text
    return any(word in text for word in ("Error", "Exception", "Traceback", ", line ", "Interrupt",
    "RESOURCE_EXHAUSTED", "LimitHit", "--> ", "\n-> "))


SOURCES = (Source(kind="traceback", read=read, looks_like=looks_like, gives=(Traceback,)),)
