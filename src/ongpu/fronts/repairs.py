"""What `ongpu lint --fix` and `--diff` change: the repaired texts, what was repaired in them, and how that reads as a patch."""

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ongpu.hosts import source_files
from ongpu.hosts.source_files import SourceFile
from ongpu.model import Edit, Evidence, Finding

ROUNDS = 8  # a repair may make another one possible


@dataclass(frozen=True, slots=True)
class Repair:
    """One file's new text, and each finding that the edits of its round answer."""

    file: SourceFile
    text: str
    answered: tuple[Finding, ...]


def repairs(files: Sequence[SourceFile], listed: Sequence[Finding], judged: Callable[[Evidence], Sequence[Finding]]) -> list[Repair]:
    """Each file that can be repaired. listed: the findings shown; judged: what is found in a text, as it would be shown."""
    changed = []
    for file in files:
        now, answered = file, list[Finding]()
        findings = repairable(file, listed)
        for _ in range(ROUNDS):
            new = repaired(now, findings)
            if new is None:
                break
            made = _made(findings)
            answered += [f for f in findings if made.issuperset(f.edits)]
            now = replace(file, evidence=replace(file.evidence, text=new))
            findings = repairable(file, judged(now.evidence))
        if now is not file:
            changed.append(Repair(file, now.evidence.text, tuple(answered)))
    return changed


def count(files: Sequence[SourceFile], listed: Sequence[Finding]) -> int:
    """How many of the findings can be repaired."""
    each = ((file, repairable(file, listed)) for file in files)
    return sum(len(findings) for file, findings in each if repaired(file, findings) is not None)


def repairable(file: SourceFile, findings: Sequence[Finding]) -> list[Finding]:
    """The findings with edits of that file."""
    return [f for f in findings if f.edits and f.edits[0].origin.partition(":cell ")[0] == file.evidence.origin]


def repaired(file: SourceFile, findings: Sequence[Finding]) -> str | None:
    """The file's text with the edits of these findings made; None where that changes nothing."""
    return source_files.repaired(file, [edit for finding in findings for edit in finding.edits]) if findings else None


def _made(findings: Sequence[Finding]) -> set[Edit]:
    edits = [edit for finding in findings for edit in finding.edits]
    return {made for origin in {e.origin for e in edits} for made in source_files.made(e for e in edits if e.origin == origin)}


def diff(file: SourceFile, new: str) -> str:
    """The change as a patch; of a notebook, cell by cell."""
    old, path = file.evidence.text, file.evidence.origin
    if file.path.suffix != ".ipynb":
        return "".join(_unified(old, new, path, file.newline))
    pairs = zip(source_files.sources(old) or (), source_files.sources(new) or (), strict=True)
    return "".join(
        line
        for number, (before, after) in enumerate(pairs, start=1)
        if before != after
        for line in _unified(before + "\n", after + "\n", f"{path}:cell {number}", "\n")
    )


def _unified(old: str, new: str, path: str, newline: str) -> Iterator[str]:
    for line in difflib.unified_diff(_lines(old, newline), _lines(new, newline), f"a/{path}", f"b/{path}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str, newline: str) -> list[str]:
    """The lines as they stand in the file; splitlines would also end them at form feeds."""
    *whole, last = text.split("\n")
    return [line + newline for line in whole] + [last] * bool(last)
