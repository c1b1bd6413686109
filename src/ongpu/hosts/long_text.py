"""A text too long to judge whole: read once in blocks; its head, its tail and each kind of line that may matter are kept.

How it is fast: a log says few things many times. Lines are folded to their shape (letters only), each new shape is
looked at once, and of its words only new ones are compared with the words that known error lines are made of.
"""

import re
from collections import deque
from collections.abc import Iterable, Sequence

from ongpu.hosts.long_shapes import Shapes
from ongpu.knowledge.error_lines import fold
from ongpu.lazy import dataclass, field, lazy

BLOCK = 2 << 20
HEAD, TAIL = 120, 200  # lines kept from both ends
BEFORE, AFTER, MORE = 3, 8, 80  # neighbours kept; MORE while the lines are still indented (a traceback)
HOLD = MORE + 4  # lines held back at a block's end, so that neighbours are at hand
HOLD_BYTES = 256 << 10
FIRST, LAST = 5, 3  # of each shape of line
MAX_KEPT = 600 << 10  # bytes
MAX_WIDTH = 3000  # bytes of one line
CUT = 1 << 20  # a longer line is read in pieces
OVERLAP = 512
NEIGHBOUR = MAX_WIDTH // 2  # bytes of a line beside it
PART = 24  # bits: a place is a line's number, and the part of the line between carriage returns

_CODE = lazy(rb"xid(?: \([^)\n]{0,40}\))?[^\d\n]{0,20}(\d{1,5})", re.IGNORECASE)
_CONTINUED = lazy(
    rb"^[^\n]{0,60}?(?:[ \t]{2,}|[|+\xe2]|File \"|Traceback|During handling|The above exception|\w*(?:Error|Exception): )"
)


@dataclass
class Excerpt:
    """What was kept of a text: (number, line) in the text's encoding; how many lines and bytes there were."""

    lines: list[tuple[int, bytes]]
    count: int
    size: int
    limited: bool = False  # so much of it was never seen before that only the general words were looked for


@dataclass
class Scan:
    """Reads blocks; remembers shapes. One object per text (or per part of it)."""

    shapes: Shapes
    number: int = 1  # of the first line of what is pending
    part: int = 0  # of that line, where it is read in pieces
    size: int = 0
    pending: bytes = b""
    head: list[tuple[int, bytes]] = field(default_factory=list)
    tail: "deque[tuple[int, bytes]]" = field(default_factory=lambda: deque(maxlen=TAIL))
    kept: dict[int, bytes] = field(default_factory=dict)
    kept_bytes: int = 0
    last: "dict[bytes, deque[list[tuple[int, bytes]]]]" = field(default_factory=dict)
    seen: dict[bytes, int] = field(default_factory=dict)

    def feed(self, block: bytes) -> None:
        """Read the next block."""
        self.size += len(block)
        data = self.pending + block
        end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1
        if end:
            self.pending = data[end:]
            self._lines(data[:end], final=False)
        else:
            self.pending = data
        while len(self.pending) >= CUT:  # a line without end: in pieces that overlap
            self._lines(self.pending[:CUT], final=True)
            self.part += 1
            self.number -= self.pending.count(b"\n", CUT - OVERLAP, CUT)
            self.pending = self.pending[CUT - OVERLAP :]

    def close(self) -> Excerpt:
        """Read what was held back; the result."""
        if self.pending:
            data, self.pending = self.pending, b""
            self._lines(data, final=True)
        for windows in self.last.values():
            for window in windows:
                self._keep(window, most=MAX_KEPT + MAX_KEPT // 2)
        lines = dict(self.tail) | dict(self.head) | self.kept
        return Excerpt(
            [(place >> PART, line) for place, line in sorted(lines.items())],
            self.number,
            self.size,
            self.shapes.limited,
        )

    def _lines(self, data: bytes, *, final: bool) -> None:
        data = data.replace(b"\r\n", b"\n")
        bars = b"\r" in data
        flat = data.replace(b"\r", b"\n") if bars else data
        count = flat.count(b"\n") + 1
        done = count if final else self._hold(flat, count)
        wanted: list[tuple[int, bytes]] = []
        if self.shapes.limited:
            wanted = [spot for spot in self.shapes.spots(flat, flat.split(b"\n")) if spot[0] < done]
        else:
            folded = fold(flat).split(b"\n")
            self.shapes.look(folded)
            hot = self.shapes.hot
            if not hot.keys().isdisjoint(folded):
                wanted = [(i, shape) for i, shape in enumerate(folded[:done]) if shape in hot]
        ends = len(self.head) < HEAD
        if wanted or ends or final or bars or self.part:
            lines = flat.split(b"\n")
            places: Sequence[int] = range(self.number << PART, self.number + len(lines) << PART, 1 << PART)
            if bars or self.part:
                places = _places(data, self.number, self.part)
            if ends:
                self.head += [(places[i], _narrow(lines[i])) for i in range(min(done, HEAD - len(self.head)))]
            self._windows(lines, places, wanted)
            self._tail(lines[max(0, done - TAIL) : done], places[max(0, done - TAIL) : done])
            rest = data[sum(map(len, lines[:done])) + done :]
            after = places[done] if done < len(lines) else places[-1]
            self.number, self.part = after >> PART, after & ((1 << PART) - 1)
        else:
            start = len(flat)
            for _ in range(count - done):
                start = flat.rfind(b"\n", 0, start)
            rest = flat[start + 1 :]
            self.number += done
            lines = flat[:start].rsplit(b"\n", TAIL)[-TAIL:] if done else []
            self._tail(lines, range(self.number - len(lines) << PART, self.number << PART, 1 << PART))
        if not final:
            self.pending = rest + self.pending

    def _tail(self, lines: Sequence[bytes], places: Sequence[int]) -> None:
        self.tail.extend((place, _narrow(line)) for place, line in zip(places, lines, strict=True))

    @staticmethod
    def _hold(flat: bytes, count: int) -> int:
        """How many of the lines can be done now; the last ones wait for their neighbours."""
        size, held = 0, 0
        at = len(flat)
        while held < HOLD and held < count and size < HOLD_BYTES:
            start = flat.rfind(b"\n", 0, at)
            size += at - start
            at = max(start, 0)
            held += 1
        return count - max(held, 1)

    def _windows(self, lines: list[bytes], places: Sequence[int], wanted: list[tuple[int, bytes]]) -> None:
        """Keep the first and the last lines of each hot shape, with their neighbours."""
        here: dict[tuple[bytes, bytes], list[int]] = {}
        for i, shape in wanted:
            code = _CODE.search(lines[i]) if b"xid" in shape else None
            here.setdefault((shape, code[1] if code else b""), []).append(i)
        for (shape, number), found in here.items():
            around = self.shapes.hot[shape].encode(self.shapes.encoding)
            key = shape + number
            had = self.seen.get(key, 0)
            self.seen[key] = had + len(found)
            for i in found[: max(0, FIRST - had)]:
                self._keep(self._window(lines, places, i, around), most=MAX_KEPT)
            if late := found[max(0, FIRST - had) :][-LAST:]:
                queue = self.last.setdefault(key, deque(maxlen=LAST))
                queue.extend(self._window(lines, places, i, around) for i in late)

    def _window(self, lines: list[bytes], places: Sequence[int], i: int, around: bytes) -> list[tuple[int, bytes]]:
        end = min(i + AFTER, len(lines))
        while end < min(i + MORE, len(lines)) and _CONTINUED.match(lines[end]):
            end += 1
        near = range(max(0, i - BEFORE), end)
        return [(places[k], _narrow(lines[k], around) if k == i else lines[k][:NEIGHBOUR]) for k in near]

    def _keep(self, window: list[tuple[int, bytes]], most: int) -> None:
        for place, line in window:
            before = self.kept.get(place)
            if (before is None or len(line) > len(before)) and self.kept_bytes < most:
                self.kept[place] = line
                self.kept_bytes += len(line) + 1 - len(before or b"")


def _narrow(line: bytes, literal: bytes = b"") -> bytes:
    """The line, or of a very long one the part around the literal."""
    if len(line) <= MAX_WIDTH:
        return line
    at = line.lower().find(literal) if literal else 0
    start = max(0, at - MAX_WIDTH // 3)
    return line[start : start + MAX_WIDTH]


def _places(data: bytes, first: int, part: int) -> list[int]:
    """Where each part stands, where progress bars overwrote their line: such parts share a line's number."""
    places: list[int] = []
    for number, line in enumerate(data.split(b"\n"), first):
        start = (number << PART) + (part if number == first else 0)
        places += range(start, start + line.count(b"\r") + 1)
    return places


def merge(first: Excerpt, second: Excerpt) -> Excerpt:
    """Two parts of one text that were read apart; the second starts on the line after the first's last."""
    shift = first.count - 1
    lines = first.lines + [(number + shift, line) for number, line in second.lines]
    return Excerpt(lines, shift + second.count, first.size + second.size, first.limited or second.limited)


def scan(blocks: Iterable[bytes], literals: Sequence[str], encoding: str = "utf-8") -> Excerpt:
    """The excerpt of a text that comes in blocks."""
    reader = Scan(Shapes(literals, encoding))
    for block in blocks:
        reader.feed(block)
    return reader.close()
