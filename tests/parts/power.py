"""A power cut: every change that a process makes to files is written down (power.c), and a disk is made of any part of them."""

import os
import random
import shutil
import struct
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "store" / "power.c"


def written_down(command: Sequence[str], folder: Path, log: Path, limit: float = 300) -> list["Record"]:
    """Runs the command, which writes into the folder; what it changed there. Skips the test where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = log.with_suffix(".so")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), "POWER_FOLDER": f"{folder}/", "POWER_LOG": str(log)}
    subprocess.run(command, env=environment, check=True, timeout=limit)
    return records(log)


Record = tuple[str, str, int, bytes]


def records(log: Path) -> list[Record]:
    """What power.c wrote down: op, name of the file, offset, data."""
    data, place, found = log.read_bytes(), 0, []
    while place < len(data):
        path, offset, length = struct.unpack_from("=QQQ", data, place + 1)
        begin = place + 25
        has = length if data[place : place + 1] == b"w" else 0
        name = Path(data[begin : begin + path].decode()).name
        found.append((chr(data[place]), name, offset, data[begin + path : begin + path + has]))
        place = begin + path + has
    return found


def after_power_cut(changes: list[Record], dice: random.Random) -> dict[str, bytearray]:
    """What the disk may hold: all that was synced, and of the rest any part, in any order, also half a write (sectors of 512 bytes)."""
    last_sync: dict[str, int] = {}
    for place, (op, name, _, _) in enumerate(changes):
        if op == "s":
            last_sync[name] = place
    files: dict[str, bytearray] = defaultdict(bytearray)
    fate = dice.choice(("none", "all", "some", "some"))
    for place, (op, name, offset, data) in enumerate(changes):
        if place > last_sync.get(name, -1) and op in "wt" and (fate == "none" or (fate == "some" and dice.random() < 0.5)):
            continue
        file = files[name]
        if op == "u":
            files.pop(name, None)
        elif op == "t":
            del file[offset:]
            file.extend(b"\0" * (offset - len(file)))
        elif op == "w":
            if place > last_sync.get(name, -1) and fate == "some" and dice.random() < 0.3:
                data = data[: dice.randrange(0, len(data) + 512, 512)]
            file.extend(b"\0" * (offset - len(file)))
            file[offset : offset + len(data)] = data
    return files
