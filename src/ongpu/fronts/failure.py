"""Why an exception that is about GPUs was raised: its traceback, its live operands and the memory, judged by the usual rules."""

import re
import sys
import traceback
from collections.abc import Iterator

from ongpu.engine import diagnose
from ongpu.facts.code import Traceback
from ongpu.facts.operands import Operands
from ongpu.facts.system import Processes
from ongpu.fronts.answer import language
from ongpu.lazy import lazy, replace
from ongpu.model import Evidence, Finding, Ref, Report, Severity, Verdict

EXCEPTION, LIVE = "exception", "live objects"  # as the refs of a finding call them
MAX_TEXT = 200_000  # characters of a traceback that are judged
MAX_CHAIN = 20  # exceptions behind an exception
# Words of a message without which no rule about GPUs can apply: all other exceptions cost one search.
_MAY_BE = lazy(
    r"cuda|cudnn|cublas|cufft|cusolver|cusparse|nccl|gpu|nvidia|nvml|nvrtc|nvcc|ptx|\bhip|rocm|mps|xla|triton|kernel image|driver|device|dtype"
    r"|scalar type|\bhalf\b|bfloat16|memory|resource_exhausted|tensor|parameter list|shm|shared_memory|lib(?:cu|nv|torch)|flash|pinned"
    r"|embedding|index out of range|assert",
    re.IGNORECASE,
)
# Words that speak of a GPU whatever the cause: said even where no rule knows it.
_SURELY = lazy(
    r"CUDA (?:error|out of memory|driver|runtime|kernel)|CUDA_ERROR|device-side assert|\bcuDNN|CUBLAS_|cuBLAS|\bNCCL|\bHIP (?:error|out of)|NVML"
    r"|no kernel image|OutOfMemoryError|AcceleratorError|NVIDIA driver|RESOURCE_EXHAUSTED"
)


class Diagnosis:
    """The answer about one exception; shown as text by a terminal and as HTML by a notebook."""

    def __init__(self, report: Report, lang: str) -> None:
        self.report, self.lang = report, lang

    def text(self, width: int = 80) -> str:
        """The findings, then the live facts that the traceback lacks."""
        from ongpu.report import as_text

        head = "ongpu: 这个异常的原因" if self.lang == "zh" else "ongpu: why this was raised"
        body = as_text.render(self.report, self.lang, width=width, links=False)
        live = self._live()
        return "\n".join([head, "", body, *([""] if live else []), *live])

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from html import escape

        from ongpu.report import as_objects

        return as_objects.html(self.report, self.lang) + "".join(f"<p>{escape(line)}</p>" for line in self._live())

    def _live(self) -> list[str]:
        from ongpu.report import as_objects

        return as_objects.live(self.report.fact(Operands), self.report.fact(Processes), self.lang)


def explain(error: BaseException, lang: str | None = None) -> Diagnosis | None:
    """The diagnosis; None where the exception is not about GPUs. May raise: `told` does not."""
    messages = "\n".join(f"{type(one).__module__}.{type(one).__name__}: {one}"[:20_000] for one in _chain(error))
    if not _MAY_BE.search(messages) or (isinstance(error, MemoryError) and not _SURELY.search(messages)):  # the host's memory
        return None
    from ongpu.hosts import pasted
    from ongpu.hosts.redact import Redactor
    from ongpu.probes import operands

    redactor = Redactor()
    text = "".join(traceback.format_exception(error))
    words = redactor.text(text if len(text) <= MAX_TEXT else text[: MAX_TEXT // 2] + "\n...\n" + text[-MAX_TEXT // 2 :])
    evidence = [replace(item, origin=EXCEPTION) for item in pasted.read_text(words, EXCEPTION)]
    live = operands.describe(_innermost(error).__traceback__)
    evidence.append(redactor.evidence(Evidence("objects", live, LIVE)))
    surely = bool(_SURELY.search(messages))
    report = _about(diagnose(evidence, type(error).__name__))
    if surely:
        from ongpu.hosts import others

        machine = others.ask(started='"initialized": true' in live)
        if machine:
            report = _about(diagnose([*map(redactor.evidence, machine), *evidence], type(error).__name__))
    if not surely and not any(finding.weight > Severity.NOTE for finding in report.findings):
        return None
    return Diagnosis(report, lang or language())


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those behind it, as Python prints them."""
    one: BaseException | None = error
    for _ in range(MAX_CHAIN):
        if one is None:
            return
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _innermost(error: BaseException) -> BaseException:
    """The one that was raised first: there the operands were."""
    return list(_chain(error))[-1]


def _about(report: Report) -> Report:
    """What the exception or its operands are grounds of, and nothing else of a machine that was asked by the way."""

    def cites(finding: Finding) -> bool:
        return any(ref.source in (EXCEPTION, LIVE) for ref in finding.refs)

    place = _own_line(report.fact(Traceback))

    def placed(finding: Finding) -> Finding:
        return replace(finding, refs=(place, *finding.refs)) if place and place not in finding.refs else finding

    findings = tuple(placed(f) for f in report.findings if cites(f))
    verdict = Verdict.FOUND if any(f.weight > Severity.NOTE for f in findings) else Verdict.UNKNOWN
    return replace(report, findings=findings, hidden=tuple(f for f in report.hidden if cites(f)), unknown=(), unread=(), verdict=verdict)


def _own_line(trace: Traceback | None) -> Ref | None:
    """The innermost line of the user's own code, as "train.py:12"; None in a notebook's cell, whose file is a number."""
    frame = (trace.own() or (None,))[-1] if trace else None
    name = re.split(r"[/\\]", frame.file)[-1] if frame else ""
    return Ref(name, frame.line, frame.code) if frame and re.fullmatch(r"(?!\d+\.py$)[^<>]{1,200}", name) else None


def told(error: BaseException, lang: str | None = None) -> Diagnosis | str | None:
    """The diagnosis, or nothing; one line where ongpu itself fails. Never raises."""
    try:
        return explain(error, lang)
    except Exception as fault:
        try:
            return f"ongpu: the diagnosis failed: {type(fault).__name__}: {str(fault)[:200]}"
        except Exception:
            return "ongpu: the diagnosis failed"


def report_to_stderr(error: BaseException) -> None:
    """Print the diagnosis below the traceback. Never raises."""
    found = told(error)
    if found is None or sys.stderr is None:
        return
    try:
        from ongpu.fronts.answer import columns

        print("\n" + (found if isinstance(found, str) else found.text(columns())), file=sys.stderr, flush=True)
    except Exception:  # a closed stream: nobody listens
        return
