"""Archives of logs, opened in memory: never written to disk, with limits on count, size and ratio."""

import bz2
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from ongpu.hosts.decode import archive_kind

BLOCK = 1 << 20
MAX_UNPACKED = 2 << 30  # bytes of one archive
MAX_RATIO, RATIO_FROM = 250, 128 << 20  # logs shrink to a tenth; what grows 250-fold is no log
MAX_MEMBERS = 2000
PIECE = 64 << 10


class Readable(Protocol):
    """What can be read in blocks."""

    def read(self, size: int = ..., /) -> bytes:
        """The next bytes, at most `size`; b"" at the end."""
        ...


class Unpacked:
    """The unpacked bytes of a gzip, bzip2 or xz file. Damage ends it; `trouble` then says why, in two languages."""

    def __init__(self, packed: Readable, name: str) -> None:
        self.packed, self.name = packed, name
        self.taken = self.given = 0
        self.trouble: tuple[str, str] | None = None
        self.most = MAX_UNPACKED
        self._buffer = b""
        self._blocks = self._unpack()

    def _new(self) -> "zlib._Decompress | bz2.BZ2Decompressor | lzma.LZMADecompressor":
        if self.name == "gzip":
            return zlib.decompressobj(31)
        return bz2.BZ2Decompressor() if self.name == "bzip2" else lzma.LZMADecompressor()

    def _unpack(self) -> Iterator[bytes]:
        decoder, fresh = self._new(), True
        try:
            while raw := self.packed.read(BLOCK // 4):
                self.taken += len(raw)
                while True:
                    block = decoder.decompress(raw, BLOCK)
                    fresh = fresh and not raw
                    if block:
                        yield block
                    if decoder.eof:
                        raw = decoder.unused_data.lstrip(b"\0")
                        decoder, fresh = self._new(), True
                        if not raw:
                            break
                        if archive_kind(raw) != self.name:
                            return
                        continue
                    raw = decoder.unconsumed_tail if hasattr(decoder, "unconsumed_tail") else b""
                    if not raw and getattr(decoder, "needs_input", not block or len(block) < BLOCK):
                        break
            if not fresh:
                self.trouble = ("cut off: only the part that is there was read", "文件不完整：只读取了现有部分")
        except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
            self.trouble = (f"damaged archive, read up to there: {error}", f"压缩文件已损坏，只读取到损坏处：{error}")

    def read(self, size: int = BLOCK, /) -> bytes:
        """The next bytes; b"" at the end, or where a limit is reached."""
        while len(self._buffer) < size:
            if self.given > self.most or (self.given > RATIO_FROM and self.given > MAX_RATIO * self.taken):
                self.trouble = (
                    f"unpacks to more than {self.given >> 20} MiB: the rest was not read",
                    f"解压后超过 {self.given >> 20} MiB：其余部分未读取",
                )
                break
            block = next(self._blocks, b"")
            if not block:
                break
            self.given += len(block)
            self._buffer += block
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data


def label(name: str) -> str:
    """A member's name as a mere label: no path is ever made of it."""
    name = re.sub(r"[\0-\x1f\x7f]", "?", name.replace("\\", "/")).removeprefix("./")
    return name if len(name) <= 120 else "..." + name[-117:]


def tar_members(stream: Readable, trouble: list[tuple[str, str]]) -> Iterator[tuple[str, Readable]]:
    """The regular files of a tar archive; what could not be read is added to `trouble`."""
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=BLOCK) as archive:  # type: ignore[call-overload]
            for count, member in enumerate(archive):
                if count >= MAX_MEMBERS:
                    trouble.append(_too_many())
                    return
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    name = label(member.name)
                    yield name, _Member(file, name, trouble)
    except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError) as error:
        trouble.append((f"damaged archive, read up to there: {error}", f"压缩包已损坏，只读取到损坏处：{error}"))


def zip_members(stream: BinaryIO, trouble: list[tuple[str, str]]) -> Iterator[tuple[str, Readable]]:
    """The files of a zip archive, under the same limits."""
    try:
        archive = zipfile.ZipFile(stream)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        trouble.append((f"damaged zip archive: {error}", f"zip 压缩包已损坏：{error}"))
        return
    left = [MAX_UNPACKED]
    with archive:
        for count, info in enumerate(archive.infolist()):
            if count >= MAX_MEMBERS:
                trouble.append(_too_many())
                return
            if info.is_dir():
                continue
            name = label(info.filename)
            if info.flag_bits & 1:
                trouble.append((f"{name}: encrypted", f"{name}：已加密"))
                continue
            try:
                with archive.open(info) as file:
                    yield name, _Limited(file, name, trouble, max(info.compress_size, 1), left)
            except (
                zipfile.BadZipFile,
                OSError,
                ValueError,
                EOFError,
                NotImplementedError,
                RuntimeError,
                zlib.error,
            ) as error:
                trouble.append((f"{name}: {error}", f"{name}：{error}"))


def _too_many() -> tuple[str, str]:
    return (f"more than {MAX_MEMBERS} files: the rest was not read", f"文件数超过 {MAX_MEMBERS}：其余部分未读取")


class _Member:
    """A file of an archive. Damage ends it, and is told."""

    def __init__(self, file: Readable, name: str, trouble: list[tuple[str, str]]) -> None:
        self.file, self.name, self.trouble = file, name, trouble

    def read(self, size: int = BLOCK, /) -> bytes:
        """The next bytes; b"" at the end. In small pieces, since what fails to be read whole is lost."""
        try:
            return self.file.read(min(size, PIECE))
        except (zipfile.BadZipFile, tarfile.TarError, OSError, EOFError, ValueError, zlib.error) as error:
            self.trouble.append((f"{self.name}: damaged: {error}", f"{self.name}：已损坏：{error}"))
            return b""


class _Limited(_Member):
    """A member of a zip archive: all together may not unpack to more than is left."""

    def __init__(self, file: Readable, name: str, trouble: list[tuple[str, str]], packed: int, left: list[int]) -> None:
        super().__init__(file, name, trouble)
        self.packed, self.left, self.given = packed, left, 0

    def read(self, size: int = BLOCK, /) -> bytes:
        """The next bytes; b"" where a limit is reached."""
        if self.left[0] <= 0 or (self.given > RATIO_FROM and self.given > MAX_RATIO * self.packed):
            self.trouble.append(
                (f"{self.name}: unpacks to too much: the rest was not read", f"{self.name}：解压后过大：其余部分未读取")
            )
            return b""
        data = super().read(size)
        self.given += len(data)
        self.left[0] -= len(data)
        return data
