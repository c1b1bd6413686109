"""How libraries resolve: ldd, LD_DEBUG=libs, ldconfig -p, dlopen errors of frameworks, Windows' DLL errors."""

import re
from collections.abc import Iterable

from ongpu.facts.libraries import Loaded, Loader
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Source

_LIB = r"lib[\w+\-]+\.so(?:\.\d+)*"
_LDD = lazy(
    rf"^[ \t]*(?P<name>{_LIB})[ \t]*(?:\([^)\n]*\)[ \t]*)?=>[ \t]*(?P<path>not found|/[^\s(]+)", re.MULTILINE
)
_CACHE = lazy(rf"^[ \t]*(?P<name>{_LIB})[ \t]+\([^)\n]*\)[ \t]*=>[ \t]*(?P<path>/\S+)", re.MULTILINE)
_DEBUG_NEED = lazy(rf"file=(?P<name>{_LIB})[ \t]*\[\d+\];[ \t]*needed by[ \t]+(?P<by>\S+)")
_DEBUG_INIT = lazy(rf"calling init:[ \t]*(?P<path>/\S+?(?P<name>{_LIB}))[ \t]*$", re.MULTILINE)
_ERROR = lazy(rf"(?P<name>{_LIB}): cannot open shared object file")
_DLOPEN = lazy(rf"Could not load (?:dynamic )?library ['\"]?(?P<name>{_LIB})", re.IGNORECASE)
_BY_NAME = lazy(  # Rust's cudarc (candle, mistral.rs, burn)
    r"Unable to dynamically load the \"(?P<name>cuda|nvcuda|cublas|cublasLt|cudnn|nvrtc|curand|cusparse|cusolver|cudart|cufft|nccl)\" shared library"
)
_TF1 = lazy(rf"Couldn't open CUDA library (?P<name>{_LIB}|[\w.\-]{{1,60}}\.dll)")
_DLL = lazy(
    r"Could not load dynamic library '(?P<name>[\w.\-]+\.dll)'|Could not find "
    r"'(?P<name2>[\w.\-]+\.dll)'|(?P<name3>\b(?:cudart|cublas|cublasLt|cudnn|cufft|curand|cusparse|cusolver|"
    r"zlibwapi)[\w]*\.dll)\b[^\n]{0,40}(?:not found|is missing|missing)",
    re.IGNORECASE,
)
_OPENED = lazy(rf"Successfully opened dynamic library (?P<name>{_LIB}|[\w.\-]+\.dll)")
_WINERROR = lazy(
    r"\[WinError (?P<code>126|127|1114|193)\][^\n]{0,200}?(?:loading|load)[^\n\"']{0,"
    r"20}[\"'](?P<name>[^\"'\n]+\.dll)|LoadLibrary failed with error (?P<code2>126|127|1114)[^\n]{0,"
    r"60}?load[^\n\"]{0,20}\"(?P<name2>[^\"\n]+\.dll)",
    re.IGNORECASE,
)
_ANY = lazy(r"\.so\b|\.dll\b|shared library", re.IGNORECASE)
MAX_TEXT = 600_000


def read(evidence: Evidence) -> Iterable[Fact]:
    """What was found, where, and what was not."""
    text = evidence.text[:MAX_TEXT]
    loaded: list[Loaded] = []
    cache: dict[str, str] = {}
    if "=>" in text:
        listing = "ldconfig" in (evidence.command or "") or " libs found in cache" in text
        for match in (_CACHE if listing else _LDD).finditer(text):
            if listing:
                cache.setdefault(match["name"], match["path"])
            else:
                by = _target(evidence.command)
                loaded.append(
                    Loaded(
                        match["name"],
                        "" if match["path"] == "not found" else match["path"],
                        by,
                        evidence.ref_at(match.start()),
                    )
                )
    needed = {match["name"]: match["by"] for match in _DEBUG_NEED.finditer(text)}
    for match in _DEBUG_INIT.finditer(text):
        loaded.append(
            Loaded(match["name"], match["path"], needed.get(match["name"], ""), evidence.ref_at(match.start()))
        )
    for pattern in (_ERROR, _DLOPEN):
        for match in pattern.finditer(text):
            loaded.append(Loaded(match["name"], "", "", evidence.ref_at(match.start())))
    for match in _TF1.finditer(text):
        loaded.append(Loaded(match["name"], "", "", evidence.ref_at(match.start())))
    for match in _BY_NAME.finditer(text):
        name = "libcuda.so" if match["name"] == "nvcuda" else f"lib{match['name']}.so"
        loaded.append(Loaded(name, "", "", evidence.ref_at(match.start())))
    for match in _DLL.finditer(text):
        loaded.append(Loaded(match["name"] or match["name2"] or match["name3"], "", "", evidence.ref_at(match.start())))
    for match in _OPENED.finditer(text):
        loaded.append(Loaded(match["name"], match["name"], "", evidence.ref_at(match.start())))
    for match in _WINERROR.finditer(text):
        loaded.append(
            Loaded(re.split(r"[\\/]", match["name"] or match["name2"])[-1], "", "", evidence.ref_at(match.start()))
        )
    unique = {(item.name, item.path, item.by): item for item in reversed(loaded)}
    items = tuple(sorted(unique.values(), key=lambda item: item.ref.line if item.ref else 0))[:400]
    if items or cache:
        yield Loader(
            loaded=items,
            cache=cache,
            refs=tuple(i.ref for i in items if i.ref and not i.path)[:4] or tuple(i.ref for i in items if i.ref)[:2],
        )


def _target(command: str | None) -> str:
    """The file that ldd was asked about."""
    match = re.search(r"\bldd\s+(?:-\w+\s+)*(\S+)", command or "")
    return match[1] if match else ""


SOURCES = (
    Source(
        kind="loader",
        read=read,
        looks_like=lambda evidence: bool(_ANY.search(evidence.text[:MAX_TEXT])),
        gives=(Loader,),
        settle="ldd $(python -c 'import torch,os; print(os.path.join(os.path.dirname(torch.__file__), "
        '"lib/libtorch_cuda.so"))\')',
    ),
)
