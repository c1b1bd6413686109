"""What the author of the code has answered for: `# ongpu: ignore[slug] reason` at the line, or alone on the line above it."""

from collections.abc import Iterable, Sequence

from ongpu.lazy import lazy
from ongpu.model import Evidence, Finding, Ref

_IGNORE = lazy(r"#\s{0,8}ongpu:\s{0,8}ignore(?:\[(?P<slugs>[\w\s,-]{1,400})\])?")


def left(findings: Iterable[Finding], evidence: Sequence[Evidence]) -> list[Finding]:
    """The findings without those that a comment in the source answers for."""
    lines: dict[str, list[str]] = {}
    for item in evidence:
        if "ongpu:" in item.text and item.kind in ("python", "pasted") and not item.numbers:
            lines[item.origin] = item.text.split("\n")
    return [finding for finding in findings if not (lines and finding.refs and _answered(finding.slug, finding.refs[0], lines))]


def _answered(slug: str, ref: Ref, lines: dict[str, list[str]]) -> bool:
    text = lines.get(ref.source)
    if not text or not 1 <= ref.line <= len(text):
        return False
    above = text[ref.line - 2].strip() if ref.line > 1 else ""
    return any(_names(slug, line) for line in (text[ref.line - 1], above if above.startswith("#") else ""))


def _names(slug: str, line: str) -> bool:
    match = _IGNORE.search(line)
    return match is not None and (match["slugs"] is None or slug in match["slugs"].replace(",", " ").split())
