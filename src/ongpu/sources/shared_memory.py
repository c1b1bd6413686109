"""How big /dev/shm is: `df`, mount lines, Ray's warning, an image's banner."""


import re
from collections.abc import Iterable

from ongpu.facts.container import Container
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Source

# "shm   64M   64M   0 100% /dev/shm"; "tmpfs  65536  0  65536  0% /dev/shm" counts KiB
_DF = lazy(
    r"^[ \t]*(?P<fs>[\w/.\-]{1,40})[ \t]+(?P<size>[\d.]+[KMGT]?i?B?)[ \t]+(?P<used>[\d.]+[KMGT]?i?B?)[ \t]+(?P<free>[\d.]+[KMGT]?i?B?)[ \t]+(?P<percent>\d{1,3})%"
    r"[ \t]+/dev/shm[ \t]*$",
    re.MULTILINE,
)
_MOUNT = lazy(r"^(?P<fs>shm|tmpfs|none) on /dev/shm type tmpfs \((?P<options>[^)\n]{0,300})\)", re.MULTILINE)
_PROC_MOUNT = lazy(r"^(?:shm|tmpfs) /dev/shm tmpfs (?P<options>\S{0,300})", re.MULTILINE)
_SIZE_OPTION = lazy(r"size=(?P<size>\d+)(?P<unit>[kKmMgG]?)")
_RAY = lazy(r"/dev/shm has only (?P<bytes>\d{4,16}) bytes", re.IGNORECASE)
_BANNER = lazy(r"SHMEM allocation limit is set to the default of (?P<size>\d+) ?(?P<unit>[KMG])B", re.IGNORECASE)
_TOLD = lazy(
    r"(?:/dev/shm|shm_size|shm-size|shared memory(?: size| limit)?|ShmSize\"?)(?: is| was|:|=| of| has| size| only)*[ \t]*\"?(?P<size>\d+(?:\.\d+)?)[ \t]?(?P<unit>[KMG])i?B?\b", re.IGNORECASE
)
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def size_bytes(text: str, plain: int = 1) -> int | None:
    """Bytes of "64M", "8g", "1.5Gi"; `plain` is the unit of a number without letters. None where it is no size."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGTkmgt]?)i?[bB]?", text.strip().strip("\"'"))
    if not match:
        return None
    return int(float(match[1]) * (_UNITS[match[2].upper()] if match[2] else plain))


def read(evidence: Evidence) -> Iterable[Fact]:
    """The size of /dev/shm, and how much of it is used."""
    text = evidence.text[:400_000]
    size: int | None = None
    used: int | None = None
    at = 0
    if match := _DF.search(text):
        header = re.search(r"(?P<unit>1K|1M|1G)-blocks", text)
        plain = {"1K": 1 << 10, "1M": 1 << 20, "1G": 1 << 30}.get(header["unit"] if header else "", 1 << 10)
        size, used, at = size_bytes(match["size"], plain), size_bytes(match["used"], plain), match.start()
    elif (mount := _MOUNT.search(text) or _PROC_MOUNT.search(text)) and (option := _SIZE_OPTION.search(mount["options"])):
        size, at = int(option["size"]) * _UNITS[option["unit"].upper()], mount.start()
    elif match := _RAY.search(text):
        size, at = int(match["bytes"]), match.start()
    elif match := _BANNER.search(text) or _TOLD.search(text):
        size, at = size_bytes(match["size"] + match["unit"]), match.start()
    if size is not None:
        ref = evidence.ref_at(at, "shm_bytes")
        yield Container(shm_bytes=size, shm_used=used, shm_lines=(ref,), refs=(ref,))


def looks_like(evidence: Evidence) -> bool:
    """Whether shared memory is spoken of."""
    low = evidence.text.lower()
    return "/dev/shm" in low or "shm" in low or "shared memory" in low


SOURCES = (Source(kind="shared_memory", read=read, looks_like=looks_like, gives=(Container,), settle="df -h /dev/shm"),)
