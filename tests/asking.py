"""Ask the engine as `ongpu explain` does, without a process: the slugs it names, worst first."""

from ongpu.engine import diagnose
from ongpu.hosts import pasted
from ongpu.model import Finding, Report, Severity


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


def lint(text: str, origin: str = "train.py", **files: str) -> Report:
    """The report on this source; files: other files of its project, by path without ".py" (__ for a slash)."""
    from ongpu.engine import all_sources
    from ongpu.model import Evidence
    from ongpu.sources import python_source
    from ongpu.sources.python.project import Project

    project = Project.of({origin: text} | {name.replace("__", "/") + ".py": other for name, other in files.items()})
    sources = [s for s in all_sources() if s.kind != "python"] + [python_source.reading(project)]
    return diagnose([Evidence("python", text, origin)], "test", None, sources)


def linted(text: str, **files: str) -> list[str]:
    """The slugs of the errors and warnings that the source alone shows."""
    return [f.slug for f in lint(text, **files).findings if f.weight > Severity.NOTE]


def looked_at(model: object, batch: object = None, optimizer: object = None, **torch: object) -> Report:
    """The report on live objects, as `ongpu.check` gives it; `torch`: what PyTorch would say of itself (gpus=1, ...)."""
    import json

    from ongpu.fronts.notebook import ORIGIN, rules
    from ongpu.model import Evidence
    from ongpu.probes import objects

    head, *rows = objects.describe(model, batch, optimizer).splitlines()
    head = json.dumps({**json.loads(head), "torch": torch})
    return diagnose([Evidence("objects", "\n".join([head, *rows]), ORIGIN)], "check", rules())


def live(model: object, batch: object = None, optimizer: object = None, **torch: object) -> list[str]:
    """The slugs of the errors and warnings about live objects, consequences left out."""
    return [f.slug for f in looked_at(model, batch, optimizer, **torch).findings if f.weight > Severity.NOTE]


def explain_files(*files: bytes) -> Report:
    """The report on the contents of these files, judged together."""
    return diagnose([item for n, data in enumerate(files, 1) for item in pasted.read_bytes(data, f"file{n}")], "test")


def found(slug: str, *files: bytes) -> Finding | None:
    """The finding of that rule on the contents of these files, a note or more."""
    return next((f for f in explain_files(*files).findings if f.slug == slug), None)
