"""What the author of the code has answered for: `# ongpu: ignore[slug] reason` at the line, or alone on the line above it."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from ongpu.lazy import dataclass, lazy
from ongpu.model import Evidence, Finding, Ref

_IGNORE = lazy(r"#\s{0,8}ongpu:\s{0,8}ignore(?:\[(?P<slugs>[\w\s,-]{1,400})\])?")


def left(findings: Iterable[Finding], evidence: Sequence[Evidence]) -> list[Finding]:
    """The findings without those that a comment in the source answers for."""
    lines: dict[str, list[str]] = {}
    for item in evidence:
        if "ongpu:" in item.text and item.kind in ("python", "pasted") and not item.numbers:
            lines[item.origin] = item.text.split("\n")
            if item.origin.endswith(".ipynb"):
                lines |= {f"{item.origin}:cell {number}": words.split("\n") for number, words in _cells(item.text)}
    return [finding for finding in findings if not (lines and finding.refs and _answered(finding.slug, finding.refs[0], lines))]


def _cells(notebook: str) -> Iterator[tuple[int, str]]:
    """A notebook's cells by number, from 1; none where it is no notebook."""
    import json  # only notebooks with such a comment need it

    try:
        for number, cell in enumerate(json.loads(notebook)["cells"], start=1):
            source = cell.get("source", "")
            yield number, "".join(map(str, source)) if isinstance(source, list) else str(source)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


def _answered(slug: str, ref: Ref, lines: dict[str, list[str]]) -> bool:
    text = lines.get(ref.source)
    if not text or not 1 <= ref.line <= len(text):
        return False
    above = text[ref.line - 2].strip() if ref.line > 1 else ""
    return any(_names(slug, line) for line in (text[ref.line - 1], above if above.startswith("#") else ""))


def _names(slug: str, line: str) -> bool:
    match = _IGNORE.search(line)
    return match is not None and (match["slugs"] is None or slug in match["slugs"].replace(",", " ").split())


@dataclass(frozen=True, slots=True)
class Idle:
    """A comment that answers for nothing. slug: the rule it names, "" for any; known: whether there is such a rule."""

    source: str
    line: int
    slug: str
    known: bool


def idle(item: Evidence, findings: Iterable[Finding], slugs: Collection[str]) -> Iterator[Idle]:
    """The comments of a Python source that answer for none of these findings (all of them, the answered ones too)."""
    if "ongpu:" not in item.text:
        return
    places = {(finding.slug, finding.refs[0].line) for finding in findings if finding.refs and finding.refs[0].source == item.origin}
    for line, alone, comment in _comments(item.text):
        match = _IGNORE.search(comment)
        if match is None:
            continue
        lines = (line, line + 1) if alone else (line,)
        named = match["slugs"].replace(",", " ").split() if match["slugs"] else [""]
        for slug in named:
            if not any(number in lines and slug in ("", found) for found, number in places):
                yield Idle(item.origin, line, slug, not slug or slug in slugs)


def _comments(text: str) -> Iterator[tuple[int, bool, str]]:
    """Each comment's line, whether it stands alone, and its text; none of a text that is no Python."""
    import io  # only sources with such a comment need these
    import tokenize

    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.line.lstrip().startswith("#"), token.string
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
