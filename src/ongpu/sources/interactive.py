"""What Python answered at a prompt or to `python -c`: is_available(), versions, device lists, providers."""

import re
from collections.abc import Iterable, Iterator

from ongpu.facts.framework import Jax, OnnxRuntime, Python, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.lazy import lazy, replace
from ongpu.model import Evidence, Fact, Ref, Source
from ongpu.sources.answers import ASKS, SAID, Ask

MAX_TEXT = 300_000
_PROMPT = lazy(r"^[ \t]*(?:>>>|In ?\[\d*\]:|Out\[\d+\]:|\.\.\.)[ \t]?(?P<code>.*)$", re.MULTILINE)
_ONE_LINER = lazy(
    r"(?:python[\d.]*(?:w)?(?:\.exe)?[\"']?[ \t]+(?:-\w+[ \t]+)*-c|print\(|from torch|import torch)", re.IGNORECASE
)
_PRINTED = lazy(
    r"^(?P<code>print\((?:[^\n]{0,200})(?:torch|tf|jax|ort|onnxruntime|sys)\.[^\n]{0,"
    r"200})\n(?P<out>(?!print|import|from)[^\n]{1,600}(?:\n(?!print|import|from|[$>#])[^\n]{1,300}){0,3})",
    re.MULTILINE,
)


# "before the upgrade is_available() returned True": what was once so says nothing of the present.
_ONCE = lazy(r"\b(?:before|previously|formerly|originally|earlier|until (?:now|today|yesterday|last|then)|used to|last (?:week|month|time)|yesterday)\b[^.;:!?]{0,120}$|(?:以前|之前|原来|昨天)[^。；！？]{0,60}$", re.IGNORECASE)


def _past(text: str, match: re.Match[str]) -> bool:
    """Whether the words of that line before the match say that its True was once so."""
    if match["v"].lower() not in ("true", "yes"):
        return False
    return bool(_ONCE.search(text[max(text.rfind("\n", 0, match.start()) + 1, match.start() - 200) : match.start()]))


def _statements(text: str) -> Iterator[tuple[int, str, int, str]]:
    """(offset, code, offset of the output, output) of each prompt of a session."""
    prompts = list(_PROMPT.finditer(text))
    code, start = "", 0
    for n, match in enumerate(prompts):
        end = prompts[n + 1].start() if n + 1 < len(prompts) else min(len(text), match.end() + 8000)
        if match.group().lstrip().startswith("Out["):
            yield start or match.start(), code, match.start("code"), text[match.start("code") : end]
            continue
        if match.group().lstrip().startswith("...") and code:
            code += "\n" + match["code"]
        else:
            code, start = match["code"], match.start()
        yield start, code, match.end(), text[match.end() : end]


def _answers(code: str, output: str) -> Iterator[tuple[Ask, int, str]]:
    """What the code asks, in its order, each with the next answer of its shape in the output."""
    asked = sorted(
        ((match.start(), ask) for ask in ASKS if (match := ask.what.search(code))), key=lambda item: item[0]
    )
    at = 0
    for _, ask in asked:
        match = ask.answer.search(output, at)
        if match and match["v"]:
            yield ask, match.start("v"), match["v"]
            at = match.end("v")


def _with_ref(fact: Fact, ref: Ref) -> Fact:
    return replace(fact, refs=(ref,))


def read(evidence: Evidence) -> Iterable[Fact]:
    """The facts that the answers give."""
    text = evidence.text[:MAX_TEXT]
    seen: set[tuple[type, str]] = set()

    def give(fact: Fact | None, at: int, about: str) -> Iterator[Fact]:
        if fact is not None and (type(fact), about) not in seen:
            seen.add((type(fact), about))
            yield _with_ref(fact, evidence.ref_at(at, about))

    for _, code, offset, output in _statements(text):
        for ask, at, value in _answers(code, output):
            yield from give(ask.fact(value), offset + at, ask.about)
    command = evidence.command or ""
    if _ONE_LINER.search(command):
        begin = text.find(command)
        begin = begin + len(command) if begin >= 0 else min(len(text), len(command))
        for ask, at, value in _answers(command, text[begin:]):
            yield from give(ask.fact(value), begin + at, ask.about)
    for match in re.finditer(r"^(?P<code>.*python[\d.]* (?:-\w )*-c.*)$", text, re.MULTILINE):
        after = text[match.end() : match.end() + 4000]
        for ask, at, value in _answers(match["code"], after):
            yield from give(ask.fact(value), match.end() + at, ask.about)
    for pattern, make, about in SAID:
        if said := next((match for match in pattern.finditer(text) if not _past(text, match)), None):
            yield from give(make(said["v"]), said.start("v"), about)
    for match in _PRINTED.finditer(text):
        for ask, at, value in _answers(match["code"], match["out"]):
            yield from give(ask.fact(value), match.start("out") + at, ask.about)
    for match in re.finditer(
        r"^[ \t]*(?:print\()?(?P<code>(?:torch|tf|tensorflow|jax|onnxruntime|"
        r"ort)\.[\w.]+(?:\([^\n)]{0,60}\))?)\)?[ \t]*\n(?P<out>[^\n]{1,2000})",
        text,
        re.MULTILINE,
    ):
        for ask, at, value in _answers(match["code"], match["out"]):
            yield from give(ask.fact(value), match.start("out") + at, ask.about)


def _looks(evidence: Evidence) -> bool:
    low = (evidence.text[:MAX_TEXT] + (evidence.command or "")).lower()
    return any(
        word in low for word in ("torch", "cuda", "tf.", "onnxruntime", "tensorflow", "jax", "provider", "devices", "gpu", ">>>")
    )


SOURCES = (
    Source(
        kind="interactive",
        read=read,
        looks_like=_looks,
        gives=(Torch, TensorFlow, Jax, OnnxRuntime, Python, Gpus),
        settle="python -c 'import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available(), "
        "torch.cuda.get_arch_list())'",
    ),
)
