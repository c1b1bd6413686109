"""Bytes into text: UTF-8, UTF-16 (PowerShell), GBK (Chinese Windows), Latin-1; and what is no text at all."""

import codecs
import re

from ongpu.lazy import lazy

SAMPLE = 64 << 10  # bytes that the encoding and the kind are judged by
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# What the first bytes say. (offset, magic, name)
_MAGIC = (
    (0, b"\x7fELF", "ELF program or library"),
    (0, b"\x89PNG\r\n\x1a\n", "PNG image"),
    (0, b"\xff\xd8\xff", "JPEG image"),
    (0, b"GIF8", "GIF image"),
    (8, b"WEBP", "WebP image"),
    (0, b"%PDF-", "PDF"),
    (0, b"\x93NUMPY", "NumPy array"),
    (0, b"\x89HDF\r\n", "HDF5"),
    (0, b"GGUF", "GGUF model"),
    (0, b"PAR1", "Parquet"),
    (0, b"SQLite format 3\0", "SQLite database"),
    (0, b"ElfFile\0", "Windows event log; export it as text"),
    (0, b"LPKSHHRH", "systemd journal; use journalctl --file"),
    (0, b"\xca\xfe\xba\xbe", "Java class or macOS program"),
    (0, b"\xcf\xfa\xed\xfe", "macOS program"),
    (0, b"\0asm", "WebAssembly"),
    (0, b"7z\xbc\xaf\x27\x1c", "7-Zip archive; unpack it first"),
    (0, b"Rar!\x1a\x07", "RAR archive; unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "zstd archive; unpack it first"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Microsoft Office document"),
)
_ARCHIVES = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
)
_CONTROL = lazy(rb"[\x01-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_GBK_USUAL = lazy(rb"[\xa1-\xa3\xb0-\xf7][\xa1-\xfe]")  # GB2312: punctuation and the 6763 usual characters
_HIGH = lazy(rb"[\x80-\xff]")


def binary_kind(head: bytes) -> str | None:
    """What kind of binary file starts with these bytes; None where it may be text."""
    for offset, magic, name in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return name
    if head[:2] == b"MZ" and (b"\0\0" in head[:64] or b"This program" in head[:512]):
        return "Windows program or library"
    if re.match(rb"\x80[\x02-\x05](?:\x95|[\]}c(X\x8c])", head):
        return "pickle"
    if re.match(rb"[\x01-\xff]{1,7}\0+\{\"", head[:16]) and len(head) > 8 and head[8:10] == b'{"':
        return "safetensors"
    if encoding_mark(head):
        return None
    body = head[:SAMPLE].replace(b"\0", b"")
    if not body:
        return None
    if len(_CONTROL.findall(body)) > max(8, len(body) // 16):
        return "unknown kind"
    high = len(_HIGH.findall(body))
    if high * 4 > len(body) and guess(head) == "cp1252":
        return "unknown kind"
    return None


def archive_kind(head: bytes) -> str | None:
    """gzip, bzip2, xz, zip, tar, or None."""
    for magic, name in _ARCHIVES:
        if head.startswith(magic):
            return name
    return "tar" if head[257:262] == b"ustar" else None


def encoding_mark(head: bytes) -> str | None:
    """The encoding that a byte order mark names, or the zero bytes of UTF-16."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    sample = head[:4096]
    even, odd = sample[::2], sample[1::2]
    if len(sample) >= 4 and b"\0" in sample:
        zeros_even, zeros_odd = even.count(0) / len(even), odd.count(0) / len(odd)
        if zeros_odd > 0.3 and zeros_even < 0.05:
            return "utf-16-le"
        if zeros_even > 0.3 and zeros_odd < 0.05:
            return "utf-16-be"
    return None


def guess(data: bytes) -> str:
    """The encoding of these bytes: what names itself, then what decodes, then what is least wrong."""
    if mark := encoding_mark(data):
        return mark
    sample = data[:SAMPLE]
    if not sample.isascii():
        return _guess_high(data)
    rest = _HIGH.search(data)
    return "utf-8" if rest is None else _guess_high(data[max(0, rest.start() - 1024) :])


def _guess_high(data: bytes) -> str:
    sample = data[:SAMPLE]
    try:
        codecs.getincrementaldecoder("utf-8")("strict").decode(sample)
        return "utf-8"
    except UnicodeDecodeError:
        pass
    high = len(_HIGH.findall(sample))
    usual = 2 * len(_GBK_USUAL.findall(sample))
    valid = high - 2 * sample.decode("utf-8", "replace").count("�")
    if usual >= 0.8 * high and usual > valid:
        return "gb18030"
    return "utf-8" if valid >= 0.5 * high else "cp1252"


def decode(data: bytes) -> str:
    """The text, in the encoding that fits it; never an error."""
    encoding = guess(data)
    if encoding == "utf-8":
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            pass
    return data.decode(encoding, "replace").removeprefix("\ufeff")
