"""Ask the engine as `ongpu explain` does, without a process: the slugs it names, worst first."""

from ongpu.engine import diagnose
from ongpu.hosts import pasted
from ongpu.model import Report, Severity


def explain(*texts: str) -> Report:
    """The report on these pasted texts, judged together."""
    evidence = [item for n, text in enumerate(texts, 1) for item in pasted.read_text(text, f"paste{n}")]
    return diagnose(evidence, "test")


def slugs(*texts: str) -> list[str]:
    """The slugs of the errors and warnings, the root cause first."""
    return [f.slug for f in explain(*texts).findings if f.weight > Severity.NOTE]


def notes(*texts: str) -> list[str]:
    """The slugs of the notes."""
    return [f.slug for f in explain(*texts).findings if f.weight is Severity.NOTE]
