"""Which files profilers write, told by their first bytes; and each read into evidence."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from ongpu.hosts.archives import Readable
from ongpu.lazy import lazy
from ongpu.model import Evidence

PROFILE, SNAPSHOT = "profile", "memory_snapshot"  # kinds of evidence
MAX_UNPACKED = 16 << 30  # bytes of a packed trace: it is read as it comes, and never held

_TRACE = lazy(
    rb"\"traceEvents\"\s{0,8}:|\"ph\"\s{0,8}:\s{0,8}\"[XBEMisfbeCPN]\"[^{}]{0,2000}\"(?:ts|pid|name)\""
    rb"|^\s{0,8}\{\s{0,8}\"schemaVersion\"[^{}]{0,400}\"deviceProperties\""
)
_SNAPSHOT = lazy(rb"\"device_traces\"\s{0,8}:|\"segment_type\"\s{0,8}:|\"total_size\"\s{0,8}:[^{}]{0,600}\"blocks\"\s{0,8}:")
_DIGEST = lazy(rb"^\s{0,8}\{\"(profile|snapshot)\": 1, ")
_PICKLE = lazy(rb"^\x80[\x02-\x05][\x95\]}c(X\x8c\x8aJKMN]")

Tick = Callable[[int, int], None]


class Unreadable(ValueError):
    """Why such a file cannot be read, in both languages."""

    def __init__(self, english: str, chinese: str) -> None:
        super().__init__(english)
        self.english, self.chinese = english, chinese


def recognised(head: bytes) -> str:
    """"trace", "snapshot", "pickle", "sqlite" or "digest"; "" for anything else."""
    if head.startswith(b"SQLite format 3\0"):
        return "sqlite"
    if _PICKLE.match(head):
        return "pickle"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith((b"{", b"[")):
        return ""
    if _DIGEST.match(text):
        return "digest"
    if _SNAPSHOT.search(text):
        return "snapshot"
    return "trace" if _TRACE.search(text) else ""


def read(
    kind: str, stream: Readable, origin: str, size: int, path: Path | None, tick: Tick
) -> tuple[list[Evidence], list[tuple[str, str]]]:
    """The evidence in such a file, and what could not be read of it. Unreadable where there is nothing of that kind in it.

    path: of a file that holds nothing else, and is not packed.
    """
    done = 0

    def block(most: int) -> bytes:
        nonlocal done
        parts, had = [], 0
        while had < most and (data := stream.read(most - had)):
            parts.append(data)
            had += len(data)
        done += had
        tick(done, size)
        return b"".join(parts)

    if kind == "trace":
        return _trace(block, origin)
    if kind == "sqlite":
        return _database(block, origin, path, tick)
    if kind == "digest":
        text = block(1 << 20).decode("utf-8", "replace")
        return [Evidence(PROFILE if text.lstrip().startswith('{"profile"') else SNAPSHOT, text, origin)], []
    return _snapshot(block, origin, kind)


def _trace(block: Callable[[int], bytes], origin: str) -> tuple[list[Evidence], list[tuple[str, str]]]:
    from ongpu.hosts.traces import chrome, digest

    timeline, events, elements = chrome.read(block)
    trouble = [elements.trouble] if elements.trouble else []
    if elements.damaged:
        trouble.append((f"{elements.damaged} damaged events were skipped", f"跳过了 {elements.damaged} 个损坏的事件"))
    if timeline.limited:
        trouble.append(_limited(timeline.kept))
    if not timeline.events:
        raise Unreadable(*(elements.trouble or ("a trace without any event", "没有任何事件的 trace")))
    return [Evidence(PROFILE, "\n".join(digest.lines(timeline, events.tool)), origin)], trouble


def _limited(kept: int) -> tuple[str, str]:
    return (
        f"more than {kept} intervals: what comes later was not read; record fewer steps",
        f"区间超过 {kept} 个：其后的内容未读取；请少记录几步",
    )


def _database(block: Callable[[int], bytes], origin: str, path: Path | None, tick: Tick) -> tuple[list[Evidence], list[tuple[str, str]]]:
    from ongpu.hosts.traces import digest, nsys

    try:
        if path is not None:
            connection = nsys.opened(path)
        else:
            data = block(nsys.MAX_IN_MEMORY + 1)
            if len(data) > nsys.MAX_IN_MEMORY:
                raise Unreadable("a packed database of more than 256 MiB: unpack it first", "压缩的数据库超过 256 MiB：请先解压")
            connection = nsys.of_bytes(data)
        timeline, trouble = nsys.read(connection, tick)
    except sqlite3.Error as error:
        raise Unreadable(f"damaged SQLite database: {error}", f"SQLite 数据库已损坏：{error}") from None
    except nsys.Unknown as error:
        raise Unreadable(error.english, error.chinese) from None
    if not timeline.events:
        nothing = ("no activity of a GPU and no call of CUDA in it", "没有 GPU 活动和 CUDA 调用")
        words, chinese = (trouble[0], trouble[0]) if trouble else nothing
        raise Unreadable(f"a report of Nsight Systems, but: {words}", f"是 Nsight Systems 的报告，但：{chinese}")
    told = [(words, words) for words in trouble]
    if timeline.limited:
        told.append(_limited(timeline.kept))
    return [Evidence(PROFILE, "\n".join(digest.lines(timeline, "nsys")), origin)], told


def _snapshot(block: Callable[[int], bytes], origin: str, kind: str) -> tuple[list[Evidence], list[tuple[str, str]]]:
    from ongpu.hosts.traces import memory, pickled
    from ongpu.hosts.traces.json_stream import Elements

    trouble: list[tuple[str, str]] = []
    if kind == "pickle":
        try:
            devices = memory.of_object(pickled.load(block))
        except pickled.Refused as error:
            raise Unreadable(error.english, error.chinese) from None
    else:
        elements = Elements(block, frozenset({"device_traces"}))
        devices = memory.read_json(elements)
        trouble = [elements.trouble] if elements.trouble else []
    if not devices:
        raise Unreadable(
            *(trouble[0] if trouble else ("plain data, but no memory snapshot of PyTorch's", "是普通数据，但不是 PyTorch 的显存快照"))
        )
    return [Evidence(SNAPSHOT, "\n".join(memory.lines(devices)), origin)], trouble
