"""The elements of a JSON document's outer arrays, one at a time: a trace of gigabytes needs no more memory than its largest event."""

import codecs
import json
from collections.abc import Callable, Iterator
from typing import Any

from ongpu.lazy import lazy

CHUNK = 1 << 20  # bytes
MAX_VALUE = 8 << 20  # characters of one element; a longer one is no event
MAX_DAMAGED = 1000  # elements that are skipped before the rest is given up
_AFTER = frozenset(" \t\r\n,]}:")  # what may follow a value
_SPACE = lazy(r"[ \t\r\n]*")
_NEXT = lazy(r",[ \t\r\n]{0,64}(?=\{[ \t\r\n]{0,64}\"(?:ph|cat|name|pid|tid|ts|args|id|action)\")")
_NO_NUMBER = lazy(r"([:,\[][ \t]{0,8})-?(?:inf|nan)\b")  # written by profilers, and no JSON
_BACKSLASH = lazy(r"\\(?![\"\\/bfnrtu])")  # of a Windows path
_WORDS = {"cut off": "文件不完整", "damaged": "已损坏", "nested too deeply": "嵌套过深", "an element is too large": "单个元素过大"}


class _Damaged(Exception):
    """The document cannot be read further."""


class Elements:
    """Iterates over (key, element) of each outer array, and (key, value) of what else stands on the outer level.

    nested: keys whose array holds arrays: their elements are given, with the key. A document that is an array has the key "".
    `trouble` says, in two languages, why the end was not reached; `damaged` counts elements that were skipped.
    """

    def __init__(self, read: Callable[[int], bytes], nested: frozenset[str] = frozenset()) -> None:
        self._read, self.nested = read, nested
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self._scan = json.JSONDecoder(strict=False, parse_constant=lambda name: None).scan_once  # type: ignore[attr-defined]
        self.text, self.at, self.ended = "", 0, False
        self.trouble: tuple[str, str] | None = None
        self.damaged = 0
        self.outer = 0  # the place of the inner array that is being read

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        try:
            first = self._next()
            if first == "[":
                yield from self._array("", 1 if "" in self.nested else 0)
            elif first == "{":
                yield from self._object()
            else:
                raise _Damaged("damaged")
        except _Damaged as error:
            self.trouble = (str(error), _WORDS[str(error)])
        except RecursionError:
            self.trouble = ("nested too deeply", _WORDS["nested too deeply"])

    def _more(self) -> bool:
        """Read on; what was used is dropped."""
        if self.ended:
            return False
        rest = self.text[self.at :]
        data = self._read(max(CHUNK, len(rest)))  # doubled, so that a long element is not scanned again and again
        self.ended = not data
        self.text, self.at = rest + self._decode(data, self.ended), 0
        return True

    def _next(self) -> str:
        """The next character that is no space; it stays."""
        while True:
            self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
            if self.at < len(self.text):
                return self.text[self.at]
            if not self._more():
                raise _Damaged("cut off")

    def _value(self) -> Any:
        """The value that starts here, and what follows it is reached."""
        self._next()
        while True:
            try:
                value, end = self._scan(self.text, self.at)
                if self.ended or self.text[end : end + 1] in _AFTER:  # a number may go on: "1" of "1e5"
                    self.at = end
                    return value
            except (StopIteration, ValueError) as error:
                if _is_wrong(error, len(self.text)):
                    raise _Damaged("damaged") from None
            if self.ended:
                raise _Damaged("cut off")
            if len(self.text) - self.at > MAX_VALUE:
                raise _Damaged("an element is too large")
            self._more()

    def _object(self) -> Iterator[tuple[str, Any]]:
        self.at += 1
        while (mark := self._next()) != "}":
            if mark == ",":
                self.at += 1
                continue
            key = self._value() if mark == '"' else None
            if not isinstance(key, str) or self._next() != ":":
                raise _Damaged("damaged")
            self.at += 1
            if self._next() == "[":
                yield from self._array(key, 1 if key in self.nested else 0)
            else:
                yield key, self._value()

    def _array(self, key: str, depth: int) -> Iterator[tuple[str, Any]]:
        self.at += 1
        self.outer = 0 if depth else self.outer
        scan, space = self._scan, _SPACE.match
        while (mark := self._next()) != "]":
            if mark == ",":
                self.at += 1
            elif mark == "[" and depth:
                yield from self._array(key, depth - 1)
                self.outer += 1
            else:
                text, at = self.text, self.at
                try:  # the fast path: many elements of one piece of text
                    while True:
                        value, end = scan(text, at)
                        end = space(text, end).end()  # type: ignore[union-attr]
                        mark = text[end]
                        if mark not in ",]":
                            raise ValueError(mark)  # a number that may go on, or damage
                        at = self.at = end
                        yield key, value
                        if mark != ",":
                            break
                        at = space(text, end + 1).end()  # type: ignore[union-attr]
                        if text[at] == "[" and depth:
                            break
                except (StopIteration, ValueError, IndexError):
                    at = self.at
                    if not self.text.startswith((",", "]"), at):
                        yield from self._slow(key)
        self.at += 1

    def _slow(self, key: str) -> Iterator[tuple[str, Any]]:
        """An element at the end of the text at hand, or a damaged one, which is skipped."""
        start = self.at
        try:
            yield key, self._value()
        except _Damaged:
            found = _NEXT.search(self.text, self.at + 1)
            if found is None or self.damaged >= MAX_DAMAGED:
                raise
            piece = _BACKSLASH.sub(r"\\\\", _NO_NUMBER.sub(r"\1null", self.text[start : found.start()]))
            self.at = found.start()
            try:
                value = self._scan(piece, 0)[0]
            except (StopIteration, ValueError):
                self.damaged += 1
                return
            yield key, value


def _is_wrong(error: StopIteration | ValueError, length: int) -> bool:
    """Whether the text itself is at fault, and not that it ends too early."""
    place = error.value if isinstance(error, StopIteration) else getattr(error, "pos", 0)  # too many digits: it has no place
    return not str(error).startswith("Unterminated") and int(place) < length - 16
