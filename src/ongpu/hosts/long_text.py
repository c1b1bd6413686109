"""A text too long to judge whole: read once in blocks; its head, its tail and each kind of line that may matter are kept.

How it is fast: a log says few things many times. Lines are folded to their shape (letters only), each new shape is
looked at once, and of its words only new ones are compared with the words that known error lines are made of.
"""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ongpu.knowledge.error_lines import Index, fold, index

BLOCK = 2 << 20
HEAD, TAIL = 120, 200  # lines kept from both ends
BEFORE, AFTER, MORE = 3, 8, 80  # neighbours kept; MORE while the lines are still indented (a traceback)
HOLD = MORE + 4  # lines held back at a block's end, so that neighbours are at hand
HOLD_BYTES = 256 << 10
FIRST, LAST = 5, 3  # of each shape of line
MAX_SHAPES = 24  # of one literal
MAX_KEPT = 600 << 10  # bytes
MAX_WIDTH = 3000  # bytes of one line
CUT = 1 << 20  # a longer line is read in pieces
OVERLAP = 512
PART = 24  # bits: a place is a line's number, and the part of the line between carriage returns
MAX_MEMORY = 24 << 20  # bytes of shapes (and of words) that are remembered
MAX_STRANGE = 48 << 20  # bytes of words never seen before, after which only the anchors are looked for

ANCHORS = (
    "traceback (most recent call last)", "error:", "error ", "exception", "fatal", "nvrm", "xid",
    "nvidia", "cuda", "nccl", "cudnn", "cublas", "segmentation fault", "core dumped", "killed",
    "out of memory", "oom", "gpu", "driver", "failed", "nan", "warning", "显卡", "驱动", "错误",
)  # fmt: skip
_CODE = re.compile(rb"xid(?: \([^)\n]{0,40}\))?[^\d\n]{0,20}(\d{1,5})", re.IGNORECASE)
_CONTINUED = re.compile(
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

    index: Index
    encoding: str = "utf-8"
    number: int = 1  # of the first line of what is pending
    part: int = 0  # of that line, where it is read in pieces
    size: int = 0
    limited: bool = False
    pending: bytes = b""
    head: list[tuple[int, bytes]] = field(default_factory=list)
    tail: "deque[tuple[int, bytes]]" = field(default_factory=lambda: deque(maxlen=TAIL))
    kept: dict[int, bytes] = field(default_factory=dict)
    kept_bytes: int = 0
    last: "dict[bytes, deque[list[tuple[int, bytes]]]]" = field(default_factory=dict)
    boring: set[bytes] = field(default_factory=set)
    boring_bytes: int = 0
    hot: dict[bytes, str] = field(default_factory=dict)  # shape: the literal that it holds
    words: set[bytes] = field(default_factory=set)
    word_bytes: int = 0
    strange: int = 0
    hot_words: dict[bytes, tuple[str, ...]] = field(default_factory=dict)
    seen: dict[bytes, int] = field(default_factory=dict)
    shapes: dict[str, int] = field(default_factory=dict)

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
        lines = dict(self.tail) | self.kept | dict(self.head)
        return Excerpt(
            [(place >> PART, line) for place, line in sorted(lines.items())], self.number, self.size, self.limited
        )

    def _lines(self, data: bytes, *, final: bool) -> None:
        data = data.replace(b"\r\n", b"\n")
        bars = b"\r" in data
        flat = data.replace(b"\r", b"\n") if bars else data
        folded = fold(flat).split(b"\n")
        done = len(folded) if final else self._hold(flat, folded)
        fresh = set(folded).difference(self.boring, self.hot)
        if fresh:
            self._learn(fresh)
        wanted = (
            [i for i, shape in enumerate(folded[:done]) if shape in self.hot]
            if not self.hot.keys().isdisjoint(folded)
            else []
        )
        ends = len(self.head) < HEAD
        if wanted or ends or final or bars or self.part:
            lines = flat.split(b"\n")
            places: Sequence[int] = range(self.number << PART, self.number + len(lines) << PART, 1 << PART)
            if bars or self.part:
                places = _places(data, self.number, self.part)
            if ends:
                self.head += [(places[i], _narrow(lines[i])) for i in range(min(done, HEAD - len(self.head)))]
            self._windows(folded, lines, places, wanted)
            self._tail(lines[max(0, done - TAIL) : done], places[max(0, done - TAIL) : done])
            rest = data[sum(map(len, lines[:done])) + done :]
            after = places[done] if done < len(lines) else places[-1]
            self.number, self.part = after >> PART, after & ((1 << PART) - 1)
        else:
            start = len(flat)
            for _ in range(len(folded) - done):
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
    def _hold(flat: bytes, folded: list[bytes]) -> int:
        """How many of the lines can be done now; the last ones wait for their neighbours."""
        size, held = 0, 0
        at = len(flat)
        while held < HOLD and held < len(folded) and size < HOLD_BYTES:
            start = flat.rfind(b"\n", 0, at)
            size += at - start
            at = max(start, 0)
            held += 1
        return len(folded) - max(held, 1)

    def _learn(self, fresh: set[bytes]) -> None:
        """Sort new shapes into those that may hold an error line and those that cannot."""
        joined = b"\n".join(fresh)
        words = set(joined.split())
        new = words - self.words
        if new:
            size = sum(map(len, new))
            self.strange += size
            if self.strange > MAX_STRANGE and not self.limited:
                self.limited, self.index = True, index(ANCHORS, self.encoding)
            text = b" ".join(new)
            keys = [key for key in self.index.by_word if key in text]
            if keys:
                for word in new:
                    if literals := tuple(item for key in keys if key in word for item in self.index.by_word[key]):
                        self.hot_words[word] = literals
            self.word_bytes += size
            if self.word_bytes > MAX_MEMORY:
                self.words, self.word_bytes = set(), size
            self.words |= new
        literals_here = {item for word in self.hot_words.keys() & words for item in self.hot_words[word]}
        hot: dict[bytes, str] = {}
        for literal in sorted(literals_here, key=len, reverse=True):
            needle = fold(literal.encode(self.encoding)).strip()
            if needle in joined:
                for shape in fresh:
                    if shape not in hot and needle in shape:
                        hot[shape] = literal
        for shape, literal in hot.items():
            count = self.shapes[literal] = self.shapes.get(literal, 0) + 1
            if count <= MAX_SHAPES or len(self.hot) < 100:
                self.hot[shape] = literal
        self.boring_bytes += len(joined)
        if self.boring_bytes > MAX_MEMORY:
            self.boring, self.boring_bytes = set(), len(joined)
        self.boring |= fresh.difference(self.hot)

    def _windows(self, folded: list[bytes], lines: list[bytes], places: Sequence[int], wanted: list[int]) -> None:
        """Keep the first and the last lines of each hot shape, with their neighbours."""
        here: dict[bytes, list[int]] = {}
        for i in wanted:
            shape = folded[i]
            if b"xid" in shape and (code := _CODE.search(lines[i])):
                shape += b" " + code[1]
            here.setdefault(shape, []).append(i)
        for shape, found in here.items():
            had = self.seen.get(shape, 0)
            self.seen[shape] = had + len(found)
            for i in found[: max(0, FIRST - had)]:
                self._keep(self._window(lines, places, i), most=MAX_KEPT)
            if late := found[max(0, FIRST - had) :][-LAST:]:
                queue = self.last.setdefault(shape, deque(maxlen=LAST))
                queue.extend(self._window(lines, places, i) for i in late)

    def _window(self, lines: list[bytes], places: Sequence[int], i: int) -> list[tuple[int, bytes]]:
        end = min(i + AFTER, len(lines))
        while end < min(i + MORE, len(lines)) and _CONTINUED.match(lines[end]):
            end += 1
        literal = self.hot.get(fold(lines[i]), "")
        around = literal.encode(self.encoding)
        return [(places[k], _narrow(lines[k], around if k == i else b"")) for k in range(max(0, i - BEFORE), end)]

    def _keep(self, window: list[tuple[int, bytes]], most: int) -> None:
        for place, line in window:
            if place not in self.kept and self.kept_bytes < most:
                self.kept[place] = line
                self.kept_bytes += len(line) + 1


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
    reader = Scan(index((*literals, *ANCHORS), encoding), encoding)
    for block in blocks:
        reader.feed(block)
    return reader.close()
