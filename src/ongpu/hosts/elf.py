"""What a shared library says of itself: what it needs, where it looks, and the GPU architectures compiled into it.

Read by hand, 64-bit little-endian ELF only (all that CUDA runs on): a library for it takes longer to import than the
whole doctor may take. Layout: https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html
"""

import mmap
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PT_LOAD, PT_DYNAMIC = 1, 2
DT_NULL, DT_NEEDED, DT_STRTAB, DT_SONAME, DT_RPATH, DT_RUNPATH = 0, 1, 5, 14, 15, 29
SHT_NOBITS = 8
MOST_ENTRIES = 4096  # of a dynamic section or a section table: a file that claims more is damaged
FATBIN_MAGIC = 0xBA55ED50  # fatbinary.h: the header of each fat binary in .nv_fatbin
PTX, CUBIN = 1, 2  # kinds of its entries
MOST = 400  # fat binaries looked at, spread over the section: each holds all architectures, with few exceptions
TIME = 0.15  # seconds for that


def describe(path: Path, archs: bool = False) -> dict[str, Any]:
    """{"needed", "rpath", "runpath", "soname", "archs"}; {"error"} where it is not a readable ELF file."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:4] != b"\x7fELF" or data[4:6] != b"\x02\x01":
                return {"error": "not a 64-bit little-endian ELF file"}
            answer: dict[str, Any] = {"needed": [], "rpath": [], "runpath": [], "soname": None}
            for tag, text in _dynamic(data):
                if tag == DT_NEEDED:
                    answer["needed"].append(text)
                elif tag == DT_SONAME:
                    answer["soname"] = text
                else:
                    answer["rpath" if tag == DT_RPATH else "runpath"] = text.split(":")
            section = _section(data, b".nv_fatbin") if archs else None
            if section:
                answer["archs"] = fatbin_archs(data, *section)
            return answer
    except (OSError, ValueError, struct.error, IndexError, OverflowError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _dynamic(data: mmap.mmap) -> Iterator[tuple[int, str]]:
    """(tag, text) of the dynamic section's names and search paths."""
    (start,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    loads, dynamic = [], None
    for index in range(count):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", data, start + index * size)
        if kind == PT_LOAD:
            loads.append((address, length, offset))
        elif kind == PT_DYNAMIC:
            dynamic = (offset, length)
    if dynamic is None:
        return
    entries = []
    for index in range(min(dynamic[1] // 16, MOST_ENTRIES)):
        tag, value = struct.unpack_from("<qQ", data, dynamic[0] + index * 16)
        if tag == DT_NULL:
            break
        entries.append((tag, value))
    table = next((value for tag, value in entries if tag == DT_STRTAB), None)
    if table is None:
        return
    strings = next((offset + table - address for address, length, offset in loads if address <= table < address + length), None)
    for tag, value in entries if strings is not None else ():
        if tag in (DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH):
            yield tag, _string(data, (strings or 0) + value)


def _string(data: mmap.mmap, at: int) -> str:
    end = data.find(b"\0", at, at + 65536)
    return data[at : end if end >= 0 else at].decode("utf-8", "replace")


def _section(data: mmap.mmap, name: bytes) -> tuple[int, int] | None:
    """(offset, size) of a section with content."""
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    if not start or not count:
        return None
    (strings,) = struct.unpack_from("<Q", data, start + names * size + 0x18)
    for index in range(min(count, MOST_ENTRIES)):
        at = start + index * size
        label, kind = struct.unpack_from("<II", data, at)
        if kind != SHT_NOBITS and data[strings + label : strings + label + len(name) + 1] == name + b"\0":
            offset, length = struct.unpack_from("<QQ", data, at + 0x18)
            return offset, length
    return None


def fatbin_archs(data: mmap.mmap | bytes, offset: int, size: int) -> list[str]:
    """The architectures in a .nv_fatbin section: "sm_80" for machine code, "compute_90" for PTX. A sample within TIME.

    Layout, as `cuobjdump` reads it: header (magic u32, version u16, header size u16, body size u64), then entries
    (kind u16, version u16, header size u32, body size u64, ..., architecture u32 at 28).
    """
    found: set[str] = set()
    end_time = time.monotonic() + TIME
    at, end, count = offset, min(offset + size, len(data)), 0
    while at + 16 <= end and count < MOST and time.monotonic() < end_time:
        magic, _, header, body = struct.unpack_from("<IHHQ", data, at)
        if magic != FATBIN_MAGIC:
            at = data.find(struct.pack("<I", FATBIN_MAGIC), at + 1, end)  # padding between fat binaries
            if at < 0:
                break
            continue
        entry, stop = at + header, min(at + header + body, end)
        while entry + 64 <= stop:
            kind, _, entry_header, entry_body = struct.unpack_from("<HHIQ", data, entry)
            (arch,) = struct.unpack_from("<I", data, entry + 28)
            if kind in (PTX, CUBIN) and 10 <= arch < 1000:
                found.add(f"{'compute' if kind == PTX else 'sm'}_{arch}")
            if entry_header + entry_body <= 0:
                break
            entry += entry_header + entry_body
        count += 1
        at = max(at + 16, at + header + body)
    return sorted(found, key=lambda name: (name.partition("_")[0], int(name.partition("_")[2])))
