"""Known error lines, by the names of `knowledge/symptoms/`: what is printed, not what it means."""

import re
from collections.abc import Callable, Iterable, Iterator

from ongpu.facts.symptoms import Hit, Symptoms
from ongpu.knowledge.error_lines import Symptom, fold, printed, symptom_index, table
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Source
from ongpu.sources.python.text import is_program

INDEX_FROM = 20_000  # characters from which a text is asked for its distinct words, below for its runs of GRAM characters
GRAM = 4
MAX_HITS = 24  # of one symptom in one text: more of the same says nothing new
MAX_LINE = 3000  # characters that a regex is given: no line can make it slow
UNWRAP_LIMIT = 400_000  # characters up to which broken lines are also read as one
_BLOB = lazy(r"[A-Za-z0-9+/=]{60}")
_PREFIX = lazy(r"\n(?:\s*(?:\[[^\]\n]{0,40}\]|kernel:|NVRM:|nvidia-nvlink:)\s*)*\s*")


def _places(low: str, literals: tuple[str, ...]) -> Iterator[int]:
    """Offsets of the literals, one per line."""
    for literal in literals:
        at = low.find(literal)
        while at >= 0:
            yield at
            end = low.find("\n", at)
            if end < 0:
                break
            at = low.find(literal, end)


def _line(text: str, at: int, more: int = 0) -> str:
    least = max(0, at - MAX_LINE // 2)
    start = max(text.rfind("\n", least, at) + 1, least)
    most = start + MAX_LINE
    end = text.find("\n", at, most)
    for _ in range(more):
        if end >= 0:
            end = text.find("\n", end + 1, most)
    return text[start : end if end >= 0 else most]


def _candidates(low: str) -> Callable[[Symptom], tuple[str, ...]]:
    """Which literals of a symptom are worth a search: those whose words, or whose start, middle and end, the text holds."""
    if len(low) < INDEX_FROM:
        grams = {low[at : at + GRAM] for at in range(len(low) - GRAM + 1)}
        return lambda symptom: tuple(literal for literal in symptom.literals if _may_hold(grams, literal))
    possible = symptom_index().possible(set(fold(low.encode("utf-8", "surrogatepass")).split()))
    return lambda symptom: tuple(literal for literal in symptom.literals if literal in possible)


def _may_hold(grams: set[str], literal: str) -> bool:
    """Whether a text with these runs of characters may hold the literal; never false where it does."""
    middle = (len(literal) - GRAM) // 2
    return middle < 0 or (literal[:GRAM] in grams and literal[-GRAM:] in grams and literal[middle : middle + GRAM] in grams)


def _scan(symptom: Symptom, literals: tuple[str, ...], text: str, low: str) -> Iterator[tuple[int, dict[str, str]]]:
    """(offset, groups) of each hit."""
    if not literals:
        return
    for count, at in enumerate(_places(low, literals)):
        if count >= 8 * MAX_HITS:
            return
        if _is_blob(text, at):
            continue
        pattern = symptom.pattern()  # compiled only where its words stand: most never are
        if pattern is None:
            yield at, {}
            continue
        match = pattern.search(_line(text, at))
        if match is None or _filled(match) < pattern.groups:  # a sentence broken over lines: its second half may hold more
            longer = pattern.search(_PREFIX.sub(" ", _line(text, at, more=2)))
            if longer and (match is None or (longer.start() == match.start() and _filled(longer) > _filled(match))):
                match = longer
        if match:
            yield at, {k: v for k, v in match.groupdict().items() if v is not None}


def _is_blob(text: str, at: int) -> bool:
    """Whether the place lies in encoded data (base64, hexadecimal): a long run of letters and digits without a space, where words
    turn up by chance."""
    least = max(0, at - MAX_LINE)
    start = max(text.rfind("\n", least, at), text.rfind(" ", least, at), least - 1) + 1
    return _BLOB.match(text, start) is not None


def _filled(match: re.Match[str]) -> int:
    return sum(value is not None for value in match.groups())


def _unwrapped(text: str) -> tuple[str, list[int]]:
    """The text with line ends taken out (terminals break words), and the old offset of each new character."""
    keep = [i for i, char in enumerate(text) if char != "\n"]
    return "".join(text[i] for i in keep), keep


def read(evidence: Evidence) -> Iterable[Fact]:
    """Every known error line in the text."""
    text = evidence.text
    low = text.lower()
    if len(low) != len(text):  # some capitals grow when lowered: offsets must agree
        text = low
    hits: list[Hit] = []
    missed: list[Symptom] = []
    candidates = _candidates(low)
    for symptom in printed() if evidence.readers else table():
        found = 0
        for at, groups in _scan(symptom, candidates(symptom), text, low):
            hits.append(Hit(symptom.name, evidence.ref_at(at), groups))
            found += 1
            if found >= MAX_HITS:
                break
        if not found:
            missed.append(symptom)
    if missed and "\n" in text and len(text) < UNWRAP_LIMIT:
        hits += _across_lines(evidence, text, missed)
    if hits:
        hits.sort(key=lambda hit: hit.ref.line)
        yield Symptoms(refs=tuple(hit.ref for hit in hits[:6]), hits=tuple(hits))


def _across_lines(evidence: Evidence, text: str, symptoms: list[Symptom]) -> Iterator[Hit]:
    """Symptoms whose words a line end has split: inside a word (terminals), or between words (sentences)."""
    flat, offsets = _unwrapped(text)
    spaced = _PREFIX.sub(lambda m: " " + "\0" * (len(m.group()) - 1), text)
    places = [i for i, char in enumerate(spaced) if char != "\0"]
    spaced = spaced.replace("\0", "")
    for joined, origin in ((spaced, places), (flat, offsets)):
        low = joined.lower()
        if len(low) != len(joined):
            return
        candidates = _candidates(low)
        for symptom in symptoms:
            literal = next((item for item in candidates(symptom) if item in low), None)
            if literal is None:
                continue
            at = low.find(literal)
            pattern = symptom.pattern()
            match = pattern.search(joined[max(0, at - 400) : at + 800]) if pattern else None
            if pattern is None or match:
                groups = {k: v for k, v in match.groupdict().items() if v is not None} if match else {}
                yield Hit(symptom.name, evidence.ref_at(origin[at]), groups)


def looks_like(evidence: Evidence) -> bool:
    """Whether anything may have been printed in it: a program's source is followed, and not read for words."""
    return bool(evidence.text) and not (not evidence.readers and is_program(evidence.text))


SOURCES = (Source(kind="symptoms", read=read, looks_like=looks_like, gives=(Symptoms,)),)
