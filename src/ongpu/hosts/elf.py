"""What a shared library says of itself: what it needs, where it looks, and the GPU architectures compiled into it."""

import mmap
import struct
import time
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

FATBIN_MAGIC = 0xBA55ED50  # fatbinary.h: the header of each fat binary in .nv_fatbin
PTX, CUBIN = 1, 2  # kinds of its entries
MOST = 400  # fat binaries looked at, spread over the section: each holds all architectures, with few exceptions
TIME = 0.15  # seconds for that


def describe(path: Path, archs: bool = False) -> dict[str, Any]:
    """{"needed", "rpath", "runpath", "soname", "archs"}; {"error"} where it is not a readable ELF file."""
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            answer: dict[str, Any] = {"needed": [], "rpath": [], "runpath": [], "soname": None}
            dynamic: Any = elf.get_section_by_name(".dynamic")
            for tag in dynamic.iter_tags() if dynamic else ():
                kind = tag.entry.d_tag
                if kind == "DT_NEEDED":
                    answer["needed"].append(tag.needed)
                elif kind == "DT_RPATH":
                    answer["rpath"] = tag.rpath.split(":")
                elif kind == "DT_RUNPATH":
                    answer["runpath"] = tag.runpath.split(":")
                elif kind == "DT_SONAME":
                    answer["soname"] = tag.soname
            section = elf.get_section_by_name(".nv_fatbin") if archs else None
            if section is not None and section["sh_type"] != "SHT_NOBITS":
                answer["archs"] = fatbin_archs(file.fileno(), section["sh_offset"], section["sh_size"])
            return answer
    except (ELFError, OSError, ValueError, struct.error, KeyError, AttributeError, UnicodeDecodeError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def fatbin_archs(fileno: int, offset: int, size: int) -> list[str]:
    """The architectures in a .nv_fatbin section: "sm_80" for machine code, "compute_90" for PTX. A sample within TIME.

    Layout, as `cuobjdump` reads it: header (magic u32, version u16, header size u16, body size u64), then entries
    (kind u16, version u16, header size u32, body size u64, ..., architecture u32 at 28).
    """
    found: set[str] = set()
    end_time = time.monotonic() + TIME
    with mmap.mmap(fileno, 0, access=mmap.ACCESS_READ) as data:
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
