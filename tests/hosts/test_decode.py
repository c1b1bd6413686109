import pickle

import pytest

from ongpu.hosts.decode import binary_kind, decode

CHINESE = "错误：显卡驱动加载失败，CUDA out of memory，内存不足\n"
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "gbk", "gb18030"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", [CHINESE, "RuntimeError: CUDA error\r\n", "NVRM: 显卡\n" * 50])
def test_any_encoding(encoding: str, text: str) -> None:
    data = text.encode(encoding)
    assert decode(data) == text
    assert binary_kind(data) is None


def test_latin_1_is_the_last_resort() -> None:
    assert decode("Größe: café\n".encode("latin-1")) == "Größe: café\n"


def test_chinese_that_begins_late_in_a_long_text() -> None:
    text = "step 1 loss 0.5\n" * 10_000 + CHINESE
    assert decode(text.encode("gbk")) == text


def test_a_few_wrong_bytes_do_not_spoil_utf_8() -> None:
    assert "显卡" in decode("显卡驱动 NVIDIA\n".encode() * 5 + b"\xff\n")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(60), "ELF program or library"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "PNG image"),
        (pickle.dumps({"a": [1, 2]}), "pickle"),
        (pickle.dumps({"a": [1, 2]}, 2), "pickle"),
        (b"\x40\0\0\0\0\0\0\0" + b'{"__metadata__":{}}', "safetensors"),
        (b"GGUF\x03\0\0\0", "GGUF model"),
        (bytes(range(256)) * 40, "unknown kind"),
        (b"hello\0\0\0world\n", None),
        (bytes(5000), None),
        (b"", None),
    ],
)
def test_binary_files_are_named(data: bytes, kind: str | None) -> None:
    assert binary_kind(data) == kind
