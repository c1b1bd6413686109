"""Texts that slow regexes down, and a runner that reads them under a time budget, in a process of its own.

usage: hostile.py sources|symptoms|hosts [NAME]    prints JSON: [[seconds, who, which text]] of those over the budget
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

SIZE = 50_000
# Seconds of processor time for one reader on one text of 50 KB: what a quadratic or cubic one needs that takes 1 s on 100 KB, and twice
# what the slowest linear one takes on a quiet machine.
BUDGET = 1 / 8

_WORDS = (
    "a", "A", "0", " ", "\t", "\n", "_", ".", "-", "/", "\\", "(", "[", "{", "<", "\"", "'", "|", "+", "=", ":", ",",
    "#", ">", "$ ", "a ", "a.", "0.", "a=", "a b", "0 ", " |", "| ", "+-", "a: ", "a,", "[0]", "()", "\n ", " \n",
    "a\n", "0:", "-a ", "--a", "a/", "/a", "GPU ", "GPU 0: ", "nvidia", "NVIDIA ", "CUDA ", "cuda:0 ", "Xid ",
    "NVRM: ", "NVRM: Xid (PCI:", "torch==", "torch-2.", "libcuda.so.", "File \"", "Error: ",
    "Traceback (most recent call last):\n", "x" * 40 + "@", "python ", "pip install ", "- name: ", "RUN ", "FROM ",
    "MiB / ", "| 0 ", "export A=", "A=b ", "ERROR: ", "[ 1.0] ", "Tried to allocate ", "compute_", "sm_",
    "size mismatch ", "driver ", "version ", "is not ", "not ", "显", "错误：", "\u00a0", "│", "\0", "é", "1e9", "0x",
    "%", "*",
)  # fmt: skip


def texts() -> Iterator[tuple[str, str]]:
    """(name, text) of hostile inputs: repeats of each kind of character and of the beginnings of known lines."""
    for word in _WORDS:
        repeated = (word * (SIZE // len(word)))[:SIZE]
        yield f"{word!r} repeated", repeated
        if word not in ("\n", "a\n"):
            width = max(1, 190 // len(word))
            yield f"lines of {word!r}", ((word * width + "!\n") * (SIZE // (width * len(word) + 2)))[:SIZE]
    for opening, closing in ("()", "[]", "{}", "<>"):
        yield f"nested {opening}", opening * (SIZE // 2) + closing * (SIZE // 2)


def near_misses() -> Iterator[tuple[str, str]]:
    """Each symptom's literal, followed by much that does not match its regex."""
    from ongpu.knowledge.error_lines import table

    for symptom in table():
        for literal in symptom.literals[:3]:
            again = literal * (2500 // len(literal))
            for tail in (" " * 2500, "a" * 2500, "0" * 2500, "a " * 1200, "a.0-" * 600, "(" * 2500, again):
                yield symptom.name, literal + tail + "\n" + literal + "!"


def _timed(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def _over(reader: Callable[[str], object], text: str, budget: float) -> float:
    """Seconds of processor time over the budget, or 0: a machine that is slow (every measure is) or busy is no fault of the reader's.

    Steep time is: half of the text in much less than half of the time.
    """
    spent = _timed(lambda: reader(text))
    if spent <= budget:
        return 0.0
    half = min(_timed(lambda: reader(text[: len(text) // 2])) for _ in range(2))

    def wrong() -> bool:
        return spent > budget and (spent > 3 * half or spent > 8 * budget)

    if wrong():
        spent = min(spent, _timed(lambda: reader(text)))
    return round(spent, 3) if wrong() else 0.0


def slow_sources(only: str = "") -> list[tuple[float, str, str]]:
    """The sources (symptoms are one) that are over the budget on a text as they get it; a crash counts as -1 s."""
    from ongpu.engine import all_sources
    from ongpu.hosts import pasted

    @lru_cache(maxsize=4)
    def evidence(text: str) -> list[Any]:
        return pasted.read_text(text, "hostile")  # once for all sources: `slow_hosts` judges it

    def read(source: Any, text: str) -> list[Any]:
        return [list(source.read(item)) for item in evidence(text) if source.looks_like(item)]

    found = []
    for name, text in texts():
        for source in all_sources():
            if only not in source.kind:
                continue
            try:
                spent = _over(partial(read, source), text, BUDGET)
            except Exception as error:
                spent, name = -1.0, f"{name}: {type(error).__name__}: {error}"[:200]
            if spent:
                found.append((spent, source.kind, name))
    return found


def slow_symptoms(only: str = "") -> list[tuple[float, str, str]]:
    """The regexes of symptoms that take more than twice the budget on one line of 3000 characters."""
    from ongpu.knowledge.error_lines import table

    patterns = {s.name: s.pattern() for s in table()}
    found = []
    for name, text in near_misses():
        pattern = patterns[name]
        if only in name and pattern and (spent := _over(pattern.search, text[:3000], 2 * BUDGET)):
            found.append((spent, name, text[:60]))
    return found


def slow_hosts(only: str = "") -> list[tuple[float, str, str]]:
    """The reader of pasted text, on the same texts."""
    from ongpu.hosts import pasted

    tried = ((_over(lambda text: pasted.read_text(text, "hostile"), text, BUDGET), "pasted", name) for name, text in texts())
    return [one for one in tried if one[0]]


if __name__ == "__main__":
    readers = {"sources": slow_sources, "symptoms": slow_symptoms, "hosts": slow_hosts}
    sys.stdout.write(json.dumps(readers[sys.argv[1]](*sys.argv[2:3])))
