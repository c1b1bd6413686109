"""Which lines of a very long text may matter: shapes of lines, each looked at once."""

from collections import Counter
from collections.abc import Collection, Sequence

from ongpu.knowledge.error_lines import fold

MAX_SHAPES = 24  # of one literal
MAX_MEMORY = 32 << 20  # bytes of shapes (and of words) that are remembered
ENTRY = 100  # bytes that one more object in a set takes, about
MAX_FRESH = 32 << 20  # bytes of lines never seen before (new words weigh more), then only PLAIN words are looked for
MAX_SPOTS = 40  # of one plain word in one block

GENERAL = (
    "error:",
    "error ",
    "exception",
    "fatal",
    "failed",
    "warning",
    "driver",
    "gpu",
    "nan",
    "oom",
    "killed",
    "显卡",
    "驱动",
    "错误",
)
PLAIN = (
    "traceback (most recent call last)", "nvrm", "xid", "nvidia", "cuda", "nccl", "cudnn", "cublas", "segmentation fault",
    "core dumped", "out of memory", "killed process", "fatal error", "error:",
)  # fmt: skip


class Shapes:
    """Literals (lower case) against the folded lines of a text. hot: shape -> the longest literal that it holds."""

    def __init__(self, literals: Sequence[str], encoding: str) -> None:
        self.encoding = encoding
        self.hot: dict[bytes, str] = {}
        self.limited = False
        self._boring: set[bytes] = set()
        self._boring_bytes = self._word_bytes = self._fresh_bytes = 0
        self._words: set[bytes] = set()
        self._count: dict[str, int] = {}
        self._needles: dict[str, bytes] = {}
        self._missing: dict[str, int] = {}  # how many of a literal's words were not seen yet
        self._waiting: dict[bytes, list[str]] = {}
        self._possible: list[str] = []
        for literal in dict.fromkeys((*literals, *PLAIN, *GENERAL)):
            needle = fold(literal.encode(encoding, "ignore")).strip()
            words = set(needle.split())
            if max(map(len, words), default=0) < 3:  # "x4" or "803" alone: in a long log nearly every line
                continue
            self._needles[literal], self._missing[literal] = needle, len(words)
            for word in words:
                self._waiting.setdefault(word, []).append(literal)

    def look(self, folded: Sequence[bytes]) -> None:
        """Learn the shapes that were never seen before."""
        fresh = set(folded).difference(self._boring, self.hot)
        if not fresh:
            return
        joined = b"\n".join(fresh)
        self._see(set(joined.split()))
        self._fresh_bytes += len(joined)
        self.limited = self._fresh_bytes > MAX_FRESH
        for literal in self._possible:
            if self._count.get(literal, 0) < MAX_SHAPES:
                self._find(literal, joined)
        self._boring_bytes += len(joined) + ENTRY * len(fresh)
        if self._boring_bytes > MAX_MEMORY or self.limited:
            self._boring, self._boring_bytes = set(), 0
        self._boring |= fresh.difference(self.hot)

    def _see(self, words: set[bytes]) -> None:
        """Note which words of literals stand in new words: a literal is possible when all of its words were seen."""
        new = words - self._words
        if not new:
            return
        text, reach = _longest_first(new, max(map(len, self._waiting), default=0))
        self._fresh_bytes += 8 * len(text)
        before = len(self._possible)
        for word in [word for word in self._waiting if text.find(word, 0, reach[len(word)]) >= 0]:
            for literal in self._waiting.pop(word):
                self._missing[literal] -= 1
                if not self._missing[literal]:
                    self._possible.append(literal)
        if len(self._possible) > before:
            self._possible.sort(key=len, reverse=True)
        self._word_bytes += len(text) + ENTRY * len(new)
        if self._word_bytes > MAX_MEMORY:
            self._words, self._word_bytes = set(), 0
        self._words |= new

    def _find(self, literal: str, joined: bytes) -> None:
        needle = self._needles[literal]
        at = joined.find(needle)
        while at >= 0 and self._count.get(literal, 0) < MAX_SHAPES:
            start, end = joined.rfind(b"\n", 0, at) + 1, joined.find(b"\n", at)
            end = len(joined) if end < 0 else end
            self._heat(joined[start:end], literal)
            at = joined.find(needle, end)

    def _heat(self, shape: bytes, literal: str) -> None:
        if shape not in self.hot:
            self.hot[shape] = literal
            self._count[literal] = self._count.get(literal, 0) + 1

    def spots(self, flat: bytes, lines: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """(line, shape) of lines with plain words: for a text that never repeats. The first and last of each block."""
        low = flat.lower()
        found: dict[int, str] = {}
        for word in reversed(PLAIN):  # the most telling last, so that it names the line
            needle, at = word.encode(), -1
            for _ in range(MAX_SPOTS):
                at = low.find(needle, at + 1)
                if at < 0:
                    break
                found[at] = word
            else:
                found[low.rfind(needle)] = word
        result: dict[int, bytes] = {}
        index = before = 0
        for at in sorted(found):
            index += low.count(b"\n", before, at)
            before = at
            shape = fold(lines[index][:2000])
            if shape not in self.hot and self._count.get(found[at], 0) >= 2 * MAX_SHAPES:
                shape = b"~" + found[at].encode()
            self._heat(shape, found[at])
            result[index] = shape
        return list(result.items())


def _longest_first(words: Collection[bytes], most: int) -> tuple[bytes, list[int]]:
    """The words in one text, the longest first; and of each length up to `most` where the words of at least that length end: a word of
    a literal stands in none that is shorter, and most words are short."""
    counts = Counter(map(len, words))
    reach = [0] * (most + 1)
    end = 0
    for length in range(max(counts, default=0), -1, -1):
        end += counts[length] * (length + 1)
        if length <= most:
            reach[length] = end
    ordered = sorted(words, key=len, reverse=True)
    return b" ".join(ordered), reach
