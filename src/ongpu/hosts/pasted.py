"""Text from a user: files of any encoding and length, archives of logs, standard input, a term."""

import io
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ongpu.hosts import decode, transcript
from ongpu.lazy import dataclass, replace
from ongpu.model import Evidence

if TYPE_CHECKING:  # archives, snapshots and long texts are seldom: their modules are loaded when one comes
    from ongpu.hosts.archives import Readable, Unpacked
    from ongpu.hosts.long_text import Excerpt

LONG = 1 << 20  # bytes (or characters) from which an excerpt is judged
LONG_SECTION = 256 << 10  # characters of one section of a bug report
REPORT = 48 << 20  # bytes up to which a bug report is taken apart into its sections
MAX_STDIN_ARCHIVE = 512 << 20
DEPTH = 3  # archives in archives
NOBODY, SILENT = 10.0, 60.0  # seconds that a pipe may go without anyone who writes into it, and with one who writes nothing
_REPORT_MARK = b"NVIDIA bug report log file"
_EXPORTS = {  # files whose format is their tool's own: how to get one that can be read
    ".nsys-rep": (
        "a report of Nsight Systems; export it first: nsys export --type sqlite FILE",
        "Nsight Systems 报告；请先导出：nsys export --type sqlite FILE",
    ),
    ".ncu-rep": ("a report of Nsight Compute; print it first: ncu --import FILE", "Nsight Compute 报告；请先打印：ncu --import FILE"),
    ".xplane.pb": ("an XPlane profile; give the trace.json.gz that lies beside it", "XPlane 性能数据；请提供同目录下的 trace.json.gz"),
}

Say = Callable[[str, str], str]  # the words in the reader's language, of two
Tick = Callable[[int, int], None]  # bytes done, bytes in all (0: nobody knows)


class Unreadable(ValueError):
    """Why an input cannot be read, in both languages."""

    def __init__(self, english: str, chinese: str) -> None:
        super().__init__(english)
        self.english, self.chinese = english, chinese


@dataclass(frozen=True, slots=True)
class Reader:
    """How the user is spoken to while something is read."""

    say: Say = lambda english, chinese: english
    tick: Tick = lambda done, size: None

    def unread(self, origin: str, english: str, chinese: str) -> Evidence:
        """What could not be read, as evidence of its own: the report tells it."""
        return Evidence("unread", "", origin, None, self.say(english, chinese))


def read_text(text: str, origin: str) -> list[Evidence]:
    """The evidence in one pasted text."""
    if text.lstrip()[:1] in ("{", "[") and (data := text.encode("utf-8", "replace")) and _profile(data[: decode.SAMPLE]):
        return read_bytes(data, origin)
    if len(text) > LONG:
        from ongpu.hosts import long_file

        return _judged(long_file.of_text(text), origin, "utf-8", Reader())
    return list(transcript.split(transcript.unwrap(transcript.lines_of(text)), origin))


def read_bytes(data: bytes, origin: str, reader: Reader | None = None) -> list[Evidence]:
    """The evidence in these bytes: a text in any encoding, or an archive of texts. Unreadable where there is no text."""
    return _stream(io.BytesIO(data), origin, reader or Reader(), len(data), 0)


def read_file(path: Path, reader: Reader | None = None) -> list[Evidence]:
    """The evidence in one file, or in a snapshot of ours. OSError, or Unreadable where there is no text."""
    reader = reader or Reader()
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        from ongpu.hosts import recorded

        if recorded.is_snapshot(path):
            return recorded.read(path)
        raise Unreadable(f"a directory; name the files in it: {path}/*", f"是目录；请给出其中的文件：{path}/*")
    if stat.S_ISSOCK(mode):
        raise Unreadable("a socket, not a file", "是套接字，不是文件")
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not _is_stream(path)):
        raise Unreadable("a device, not a file", "是设备，不是文件")
    if stat.S_ISFIFO(mode):
        with _Pipe(path) as pipe:
            return _stream(pipe, path.name, reader, 0, 0)
    with path.open("rb", buffering=0) as raw:
        size = os.fstat(raw.fileno()).st_size if stat.S_ISREG(mode) else 0
        file: BinaryIO = io.BufferedReader(raw, 1 << 20)
        return _stream(file, path.name, reader, size, 0, path if stat.S_ISREG(mode) else None)


def _is_stream(path: Path) -> bool:
    """Whether a character device is /dev/null or the terminal in which we stand, and not an endless one or one that waits for ever."""
    real = os.path.realpath(path)
    if real == os.devnull:
        return True
    try:
        return real in ("/dev/tty", os.ttyname(0))
    except (OSError, AttributeError):  # no terminal; Windows
        return False


class _Pipe:
    """A named pipe, or that of <(command): read until the last writer has gone. Silence has an end, too: Unreadable."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        self._had = False

    def __enter__(self) -> "_Pipe":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def read(self, size: int = 1 << 16, /) -> bytes:
        """The next bytes; b"" once nobody writes any more."""
        start = time.monotonic()
        while True:
            try:
                data = os.read(self._file, size)
            except BlockingIOError:  # somebody is there, and silent
                if time.monotonic() - start > SILENT:
                    english, chinese = f"a pipe into which nothing was written for {SILENT:g} s", f"管道已 {SILENT:g} 秒没有数据写入"
                    raise Unreadable(english, chinese) from None
            else:
                if data or self._had:
                    self._had = True
                    return data
                if time.monotonic() - start > NOBODY:
                    raise Unreadable("a pipe into which nobody writes", "是管道，但没有程序向其写入")
            time.sleep(0.02)


def read_stdin(reader: Reader | None = None) -> list[Evidence]:
    """The evidence on standard input. Unreadable where it is closed or empty."""
    if sys.stdin is None or sys.stdin.closed:
        raise Unreadable("standard input is closed: nothing to read", "标准输入已关闭：没有可读的内容")
    return _stream(sys.stdin.buffer, "stdin", reader or Reader(), 0, 0)


class _Rejoined:
    """A stream whose first bytes were already looked at."""

    def __init__(self, head: bytes, stream: "Readable") -> None:
        self.head, self.stream = head, stream

    def read(self, size: int = 1 << 20, /) -> bytes:
        """The next bytes."""
        if self.head:
            data, self.head = self.head[:size], self.head[size:]
            return data
        return self.stream.read(size)


def _read(stream: "Readable", size: int) -> bytes:
    """`size` bytes; fewer only at the end (pipes give less at a time)."""
    parts, had = [], 0
    while had < size and (data := stream.read(size - had)):
        parts.append(data)
        had += len(data)
    return b"".join(parts)


def _profile(head: bytes) -> str:
    """Which kind of profiler's file starts so; "" for anything else."""
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[", b"\x80", b"SQLite")):
        return ""
    from ongpu.hosts.traces import files

    return files.recognised(head)


def _stream(
    stream: "Readable", origin: str, reader: Reader, size: int, depth: int, path: Path | None = None
) -> list[Evidence]:
    head = _read(stream, decode.SAMPLE)
    whole = _Rejoined(head, stream)
    kind = decode.archive_kind(head)
    if kind and depth > DEPTH:
        raise Unreadable("archives inside archives inside archives", "压缩包嵌套过深")
    if kind in ("gzip", "bzip2", "xz"):
        from ongpu.hosts import archives

        unpacked = archives.Unpacked(whole, kind)
        evidence = _guarded(unpacked, origin, reader, depth + 1, path)
        if unpacked.trouble:
            if not evidence:
                raise Unreadable(*unpacked.trouble)
            evidence.append(reader.unread(origin, *unpacked.trouble))
        if not evidence:
            raise Unreadable("empty: nothing to read", "内容为空")
        return evidence
    if kind == "tar":
        from ongpu.hosts import recorded

        if path and head[:100].removeprefix(b"./").startswith((b"evidence/", recorded.INDEX.encode())):
            return recorded.read(path)
        return _members(whole, None, origin, reader, depth)
    if kind == "zip":
        file = path.open("rb") if path and depth == 0 else io.BytesIO(_read(whole, MAX_STDIN_ARCHIVE))
        with file:
            return _members(None, file, origin, reader, depth)
    if profile := _profile(head):
        from ongpu.hosts.traces import files

        try:
            evidence, troubles = files.read(profile, whole, origin, size, path if depth == 0 else None, reader.tick)
        except files.Unreadable as error:
            raise Unreadable(error.english, error.chinese) from None
        return evidence + [reader.unread(origin, *words) for words in troubles]
    if name := decode.binary_kind(head):
        for suffix, words in _EXPORTS.items():
            if origin.endswith(suffix):
                raise Unreadable(*words)
        raise Unreadable(
            f"binary file ({name}); give the text that was printed", f"二进制文件（{name}）；请提供打印出来的文本"
        )
    return _text(whole, head, origin, reader, size, path if depth == 0 else None)


def _guarded(stream: "Unpacked", origin: str, reader: Reader, depth: int, path: Path | None) -> list[Evidence]:
    """What is in an unpacked stream; nothing where it holds no byte."""
    head = _read(stream, 1 << 16)
    if not head:
        return []
    if _profile(head):
        from ongpu.hosts.traces import files

        stream.most = files.MAX_UNPACKED
    return _stream(
        _Rejoined(head, stream), origin.removesuffix(".gz").removesuffix(".tgz") or origin, reader, 0, depth, path
    )


def _members(tar: "Readable | None", file: BinaryIO | None, origin: str, reader: Reader, depth: int) -> list[Evidence]:
    from ongpu.hosts import archives

    trouble: list[tuple[str, str]] = []
    evidence: list[Evidence] = []
    members = archives.zip_members(file, trouble) if file else archives.tar_members(tar, trouble) if tar else iter(())
    kinds: dict[str, int] = {}
    for name, member in members:
        try:
            evidence += _stream(member, f"{origin}:{name}", reader, 0, depth + 1)
        except Unreadable as error:
            kinds[error.english] = kinds.get(error.english, 0) + 1
            if kinds[error.english] <= 3:
                evidence.append(reader.unread(f"{origin}:{name}", error.english, error.chinese))
    if not any(item.text.strip() for item in evidence):
        raise Unreadable(*(trouble[0] if trouble else ("an archive without any text in it", "压缩包里没有文本文件")))
    return evidence + [reader.unread(origin, *words) for words in trouble[:5]]


def _text(stream: "Readable", head: bytes, origin: str, reader: Reader, size: int, path: Path | None) -> list[Evidence]:
    report = _REPORT_MARK in head[:8192]
    limit = REPORT if report else LONG
    data = _read(stream, limit + 1)
    if not data.strip(b"\0 \t\r\n"):
        raise Unreadable("empty: nothing to read", "内容为空")
    if len(data) <= limit:
        evidence = list(transcript.split(transcript.unwrap(transcript.lines_of(decode.decode(data))), origin))
        return [_shortened(item) for item in evidence] if report else evidence
    from ongpu.hosts import long_file

    encoding = decode.guess(data).removesuffix("-sig")
    if path and size and not long_file.is_wide(encoding):
        return _judged(long_file.of_file(path, size, encoding, reader.tick), origin, encoding, reader)
    excerpt = long_file.of_stream(_Rejoined(data, stream), encoding, size, reader.tick)
    return _judged(excerpt, origin, "utf-8" if long_file.is_wide(encoding) else encoding, reader)


def _judged(excerpt: "Excerpt", origin: str, encoding: str, reader: Reader) -> list[Evidence]:
    """The evidence in an excerpt."""
    lines: list[transcript.Line] = []
    if encoding == "utf-8":  # told by the first megabyte; other scripts may come later
        encoding = decode.guess(b"\n".join(line for _, line in excerpt.lines if not line.isascii()))
    for number, line in excerpt.lines:
        lines += transcript.lines_of(line.decode(encoding, "replace"), number)
    evidence = list(transcript.split(transcript.unwrap(lines), origin))
    if excerpt.limited:
        evidence.append(
            reader.unread(
                origin,
                "long text that never repeats: read were its head, its tail and lines with general words (CUDA, NVRM, error ...)",
                "文本很长且几乎不重复：只读取了开头、结尾以及含 CUDA、NVRM、error 等通用字样的行",
            )
        )
    return evidence


def _shortened(item: Evidence) -> Evidence:
    """A section of a bug report, cut down to what may matter where it is long (a whole journal)."""
    if len(item.text) <= LONG_SECTION:
        return item
    from ongpu.hosts import long_file

    numbers = [number for number, _ in item.lines()]
    kept = long_file.of_text(item.text).lines
    text = "\n".join(line.decode("utf-8", "replace") for _, line in kept)
    return replace(item, text=text, numbers=tuple(numbers[min(number, len(numbers)) - 1] for number, _ in kept))
