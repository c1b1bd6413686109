"""Which findings a reader is shown. JSON keeps all of them."""

from ongpu.model import Finding, Report, Severity

HARMLESS = "healthy"  # the slug of notes on lines that alarm and mean nothing


def shown(report: Report, everything: bool = False, live: bool = False) -> tuple[tuple[Finding, ...], int]:
    """The findings to show, and how many notes on harmless lines are left out.

    Such notes are told only where somebody asked about a text and nothing serious is in it: beside a found fault or a sign of
    one, and on a machine that was examined (live), they are noise.
    """
    if everything:
        return (*report.findings, *report.hidden), 0
    if not live and not report.signs and not any(finding.weight > Severity.NOTE for finding in report.findings):
        return report.findings, 0
    kept = tuple(finding for finding in report.findings if finding.slug != HARMLESS)
    return kept, len(report.findings) - len(kept)
