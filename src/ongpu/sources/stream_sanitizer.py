"""PyTorch's CUDA sanitizer (TORCH_CUDA_SANITIZER=1): a tensor that two streams use without waiting for each other.

Its report: https://docs.pytorch.org/docs/stable/cuda._sanitizer.html
"""

from collections.abc import Iterable

from ongpu.facts.sanitizer import Fault, Sanitizer
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source

MAX_FAULTS = 50
MAX_BLOCK = 120  # lines of one report
_HEAD = lazy(r"CSAN detected a possible data race on tensor with data pointer \d{1,24}")
_ACCESS = lazy(r"^(?:Previous access|Access) by stream (\d{1,24}) during kernel:")
_KERNEL = lazy(r"^\s*([\w:.]{1,120})\(")
_HOW = lazy(r"^\s*(reading|writing)\b")
_FRAME = lazy(r"^\s*File \"(.{1,400}?)\", line (\d{1,7}), in ")
_THEIRS = lazy(r"(?:site|dist)-packages[/\\]|[/\\]torch[/\\]|[/\\]lib[/\\]python\d")


def _fault(lines: list[tuple[int, str]], evidence: Evidence) -> Fault:
    """One report: the two accesses, and the user's line of the later one."""
    kernels: list[str] = []
    ways: list[str] = []
    place: tuple[str, Ref] | None = None
    refs = [evidence.ref(*lines[0])]
    access = False
    for number, line in lines[1:]:
        if _ACCESS.match(line.strip()):
            access = True
            refs.append(evidence.ref(number, line))
        elif access and (match := _KERNEL.match(line)):
            kernels.append(match[1])
            access = False
        elif match := _HOW.match(line):
            ways.append(match[1])
        elif len(kernels) == 1 and (match := _FRAME.match(line)) and not _THEIRS.search(match[1]):
            name = "/".join(match[1].replace("\\", "/").split("/")[-2:])
            place = f"{name}:{match[2]}", evidence.ref(number, line)  # the innermost is the last
    if place:
        refs.append(place[1])
    what = " / ".join({"reading": "read", "writing": "write"}[way] for way in ways[:2]) or "access"
    return Fault(
        kind="streams", what=what, ref=refs[0], kernel=kernels[0] if kernels else None, place=place[0] if place else None,
        host=kernels[1] if len(kernels) > 1 else None, refs=tuple(dict.fromkeys(refs)),
    )


def read(evidence: Evidence) -> Iterable[Fact]:
    """The data races between streams."""
    blocks: list[list[tuple[int, str]]] = []
    for number, line in evidence.lines():
        line = line[:1000]
        if _HEAD.search(line):
            blocks.append([])
        if blocks and len(blocks[-1]) < MAX_BLOCK and len(blocks) <= MAX_FAULTS:
            blocks[-1].append((number, line))
    faults = tuple(_fault(block, evidence) for block in blocks if block)
    if faults:
        yield Sanitizer(faults=faults, refs=tuple(fault.ref for fault in faults[:3]))


SOURCES = (
    Source(
        kind="stream_sanitizer", read=read, looks_like=lambda evidence: "CSAN detected" in evidence.text, gives=(Sanitizer,),
        settle="TORCH_CUDA_SANITIZER=1 python train.py",
    ),
)
