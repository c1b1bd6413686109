"""A bare term ('803', 'Xid 79', 'cudaErrorNoDevice', 'sm_120', 'libcudnn.so.8'): everything that it can mean, apart."""

import difflib
import re
from collections.abc import Iterator
from typing import Any

from ongpu.knowledge import card_fit, cuda, errors, gpus, libs, xids
from ongpu.knowledge._tables import table
from ongpu.lazy import dataclass, lazy

LONGEST = 60  # characters of a term
_FAMILY = {
    "cuda": ("CUDA error", "CUDA 错误"),
    errors.OLD_RUNTIME: ("error of the CUDA runtime before 10.1:", "10.1 之前的 CUDA 运行时错误"),
    "nvml": ("NVML error", "NVML 错误"),
    "cublas": ("cuBLAS status", "cuBLAS 状态"),
    "cudnn9": ("cuDNN 9 status", "cuDNN 9 状态"),
    "cudnn8": ("cuDNN 8 status", "cuDNN 8 状态"),
    "cusparse": ("cuSPARSE status", "cuSPARSE 状态"),
    "cusolver": ("cuSOLVER status", "cuSOLVER 状态"),
    "cufft": ("cuFFT result", "cuFFT 结果"),
    "nccl": ("NCCL result", "NCCL 结果"),
    "xid": ("Xid", "Xid"),
    "sxid": ("SXid", "SXid"),
    "architecture": ("compute capability", "计算能力"),
    "card": ("GPU", "GPU"),
    "library": ("library", "库"),
    "word": ("", ""),
}
# What the CUDA runtime and NVML print for a number: programs print these words, seldom the number.
_PRINTED = {
    ("cuda", 2): "CUDA out of memory", ("cuda", 35): "CUDA driver version is insufficient for CUDA runtime version",
    ("cuda", 46): "all CUDA-capable devices are busy or unavailable", ("cuda", 100): "no CUDA-capable device is detected",
    ("cuda", 101): "invalid device ordinal", ("cuda", 209): "no kernel image is available for execution on the device",
    ("cuda", 214): "uncorrectable ECC error encountered",
    ("cuda", 222): "the provided PTX was compiled with an unsupported toolchain.",
    ("cuda", 700): "an illegal memory access was encountered", ("cuda", 702): "the launch timed out and was terminated",
    ("cuda", 710): "device-side assert triggered", ("cuda", 719): "unspecified launch failure", ("cuda", 802): "system not yet initialized",
    ("cuda", 803): "system has unsupported display driver / cuda driver combination",
    ("cuda", 804): "forward compatibility was attempted on non supported HW",
    ("cuda", 805): "MPS client failed to connect to the MPS control daemon or the MPS server", ("cuda", 999): "unknown error",
    ("nvml", 9): "Failed to initialize NVML: Driver Not Loaded", ("nvml", 18): "Failed to initialize NVML: Driver/library version mismatch",
    ("nvml", 15): "GPU is lost", ("nvml", 12): "NVML Shared Library Not Found", ("nvml", 4): "Insufficient Permissions",
}  # fmt: skip
UNAMBIGUOUS = 35  # from this number on, a bare number is most likely CUDA's of today
_NUMBERED = lazy(
    r"(?P<family>s?xid|cuda|cu|nvml|cublas|cudnn|cusparse|cusolver|cufft|nccl|cudaerror|curesult)?"
    r"[\s_:#=-]{0,3}(?:error|status|code|err|错误|错误码)?[\s_:#=(-]{0,3}(?P<number>\d{1,5}|0x[0-9a-f]{1,4})\)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """One thing that a term can mean. Texts are clauses, in both languages; "" where nobody told."""

    family: str
    label: str
    label_zh: str
    number: str
    name: str
    cause: str = ""
    cause_zh: str = ""
    action: str = ""
    action_zh: str = ""
    note: str = ""
    note_zh: str = ""
    printed: str = ""  # what a program prints for it
    name_zh: str = ""  # where the name is language


def _meaning(family: str, number: object, name: str, **texts: str | None) -> Meaning:
    label, chinese = _FAMILY[family]
    return Meaning(family, label, chinese, str(number), name, **{key: text or "" for key, text in texts.items()})


def _of_code(one: errors.ErrorCode) -> Meaning:
    number = one.number if one.number_now is None else one.number_now
    words = _PRINTED.get(("cuda" if one.family == errors.OLD_RUNTIME else one.family, number), "")
    names = " / ".join(one.names)
    return _meaning(
        one.family, one.number, names, cause=one.cause, cause_zh=one.cause_zh, action=one.action, action_zh=one.action_zh,
        note=one.note, note_zh=one.note_zh, printed=f"{one.names[0]}: {words}" if words else one.names[0],
    )  # fmt: skip


def _xid(number: int) -> Iterator[Meaning]:
    if one := xids.xid(number):
        old = one.old_cards_only
        yield _meaning(
            "xid", number, one.title or one.name, cause=one.meaning, cause_zh=one.meaning_zh, action=one.action, action_zh=one.action_zh,
            note="not used on Ampere and newer cards" if old else "", note_zh="Ampere 及更新的显卡不再使用" if old else "",
            printed=f"Xid {number}: {one.title or one.name}",
        )  # fmt: skip


def _sxid(number: int) -> Iterator[Meaning]:
    if one := xids.sxid(number):
        fatal, fatal_zh = {
            "always": ("fatal", "致命"), "potential": ("may be fatal", "可能致命"), "never": ("not fatal", "不致命"),
        }[one.fatal]  # fmt: skip
        yield _meaning(
            "sxid", number, one.name, cause=f"an error of an NVSwitch ({fatal})", cause_zh=f"NVSwitch 的错误（{fatal_zh}）",
            action=one.action, action_zh=one.action_zh, printed=f"SXid {number}",
        )  # fmt: skip


def _numbered(text: str) -> Iterator[Meaning]:
    match = _NUMBERED.fullmatch(text)
    if match is None:
        return
    number = int(match["number"], 0) if match["number"].lower().startswith("0x") else int(match["number"])
    family = (match["family"] or "").lower()
    family = {"cu": "cuda", "cudaerror": "cuda", "curesult": "cuda"}.get(family, family)
    if family == "xid":
        yield from _xid(number)
    elif family == "sxid":
        yield from _sxid(number)
    else:
        for one in errors.look_up(str(number)):
            if one.family.startswith(family) and not one.is_success:
                yield _of_code(one)
        if not family:
            yield from _xid(number)
            yield from _sxid(number)


def _architecture(text: str) -> Iterator[Meaning]:
    match = re.fullmatch(r"(?:sm|compute|cc|compute capability)[_ ]?(?P<n>\d{2,3}|\d{1,2}\.\d)[af]?", text, re.IGNORECASE)
    capability = card_fit.capability(match["n"]) if match else None
    known = gpus.architecture(capability) if capability else None
    if capability and known:
        yield _fit("architecture", capability, f"sm_{capability.replace('.', '')} ({known.name})", capability)


def _fit(family: str, number: str, name: str, capability: str) -> Meaning:
    """What a compute capability asks of CUDA, the driver and PyTorch."""
    known = gpus.architecture(capability)
    first, last = (known.cuda_first, known.cuda_last) if known else ("?", None)
    driver = cuda.oldest_driver_for_gpu(capability)
    torch = card_fit.torch_for(capability)
    some = [m.name for m in gpus.models() if m.capability == capability and not m.laptop][-5:] if family == "architecture" else []
    english = f"needs CUDA {first}{f' to {last}' if last else ' or newer'}" + (f" and driver branch {driver} or newer" if driver else "")
    chinese = f"需要 CUDA {first}{f' 到 {last}' if last else ' 或更新'}" + (f"、驱动分支 {driver} 或更新" if driver else "")
    with_torch = f"PyTorch with code for it: {torch[0][0]}+{torch[0][1]} to {torch[1][0]}+{torch[1][1]}" if torch else ""
    with_torch_zh = f"含其代码的 PyTorch：{torch[0][0]}+{torch[0][1]} 到 {torch[1][0]}+{torch[1][1]}" if torch else ""
    return _meaning(
        family, number, name, cause=english, cause_zh=chinese, action=with_torch, action_zh=with_torch_zh,
        note=f"cards: {', '.join(some)}" if some else "", note_zh=f"显卡：{'、'.join(some)}" if some else "",
    )  # fmt: skip


def _card(text: str) -> Iterator[Meaning]:
    model = gpus.model(text) if re.search(r"[A-Za-z]", text) and re.search(r"\d", text) and gpus.find_names(text) else None
    if model and model.capability:
        memory = f", {model.memory_gib:g} GiB" if model.memory_gib else ""
        yield _fit("card", model.capability, f"{model.name} (compute capability {model.capability}{memory})", model.capability)


def _library(text: str) -> Iterator[Meaning]:
    found = libs.library(text)
    if found is None:
        return
    majors = ", ".join(map(str, found.cuda_majors))
    if found.from_driver:
        cause, cause_zh = "comes with the NVIDIA driver, never from pip or conda", "由 NVIDIA 驱动提供，pip 或 conda 中没有"
    else:
        cause = f"the library {found.component} for CUDA {majors or '?'}"
        cause_zh = f"{found.component} 库，对应 CUDA {majors or '?'}"
    wheels = " / ".join(found.wheels.values())
    yield _meaning(
        "library", "", found.name, cause=cause, cause_zh=cause_zh, note=found.note, note_zh=found.note_zh,
        action=f"to get it: pip install {wheels}" if wheels else "", action_zh=f"安装：pip install {wheels}" if wheels else "",
    )  # fmt: skip


def look_up(term: str) -> list[Meaning]:
    """Everything that the tables know about a term, the likeliest first; [] where it is none, or unknown."""
    text = " ".join(term.split()).strip("\"'`,.;")
    if not text or len(text) > LONGEST:
        return []
    words = [row for row in table("terms")["term"] if text.lower() in (*row["terms"], *row.get("also", ()))]
    first = [_word(row) for row in words if text.lower() in row["terms"]]
    return [*first, *_coded(text), *(_word(row) for row in words if text.lower() not in row["terms"])]


def _word(row: dict[str, Any]) -> Meaning:
    """A term that people use, though no table of NVIDIA's has it."""
    texts = {key: value for key, value in row.items() if key not in ("terms", "also")}
    return Meaning(family="word", **texts)


def _coded(text: str) -> list[Meaning]:
    """What NVIDIA's tables know of it."""
    found = list(_numbered(text))
    if not found and (one := errors.by_name(text)):
        found = [_of_code(item) for item in errors.look_up(text)] or [_of_code(one)]
    for more in (_architecture, _library, _card):
        if not found:
            found = list(more(text))
    return found


def printed(term: str, meanings: list[Meaning]) -> str:
    """The line that a program prints for a term, so that the rules can judge it; the term itself where it is ambiguous."""
    first = meanings[0] if meanings else None
    if first is None or not first.printed:
        return term
    bare = bool(re.fullmatch(r"(?:0x)?[0-9a-fA-F]+", term.strip()))
    if bare and (first.family != "cuda" or int(first.number) < UNAMBIGUOUS):
        return ""
    if first.family == "cuda":
        return f"CUDA error {first.number}: {first.printed}"
    return first.printed if first.family in ("xid", "sxid") else f"{first.label} {first.number}: {first.printed}"


def near(term: str, also: tuple[str, ...] = ()) -> list[str]:
    """Known names that look like an unknown term."""
    told = (name for block in table("errors")["names"].values() for name in re.findall(r"[A-Za-z]\w{5,}", block))
    names = {name.lower(): name for name in (*told, *also)}
    text = term.strip().lower()
    close = difflib.get_close_matches(text, names, 4, 0.72)
    parts = [name for name in names if len(text) >= 4 and text in name]
    return [names[name] for name in dict.fromkeys([*close, *sorted(parts, key=len)])][:4]
