import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ongpu.hosts import long_file, long_shapes, pasted
from ongpu.hosts.long_text import Excerpt, scan

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
LITERALS = ["has fallen off the bus", "out of memory"]


def log(lines: int, odd: dict[int, str], end: str = "\n") -> bytes:
    """A log of so many lines, with other lines at some numbers."""
    chance = random.Random(1)
    rows = (f"step {i} loss {chance.random():.4f} lr {chance.random():.1e}" for i in range(1, lines + 1))
    return "".join(odd.get(i, row) + end for i, row in enumerate(rows, 1)).encode()


def blocks(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def at(excerpt: Excerpt, number: int) -> bytes:
    return b"|".join(line for n, line in excerpt.lines if n == number)


@pytest.mark.parametrize("size", [997, 4096, 100_000, 1 << 22])
def test_one_line_in_the_middle_is_found_with_its_number_and_neighbours(size: int) -> None:
    data = log(20_000, {11_111: XID})
    excerpt = scan(blocks(data, size), LITERALS)
    assert at(excerpt, 11_111).decode() == XID
    assert at(excerpt, 11_110).startswith(b"step 11110 ")
    assert at(excerpt, 11_112).startswith(b"step 11112 ")
    assert at(excerpt, 1).startswith(b"step 1 ")
    assert at(excerpt, 20_000).startswith(b"step 20000 ")
    assert len(excerpt.lines) < 600
    assert excerpt.size == len(data)


def test_first_and_last_of_a_flood_are_kept() -> None:
    odd = {i: f"RuntimeError: CUDA out of memory, tried {i} MiB" for i in range(1000, 15_000, 2)}
    excerpt = scan(blocks(log(20_000, odd), 50_000), LITERALS)
    kept = {n for n, line in excerpt.lines if b"out of memory" in line}
    assert {1000, 14_998} <= kept
    assert len(kept) < 200


def test_each_xid_is_told_apart_from_a_flood_of_another() -> None:
    odd = {i: XID.replace("79", "31") for i in range(1000, 15_000, 2)} | {9001: XID}
    assert at(scan(blocks(log(20_000, odd), 50_000), LITERALS), 9001).decode() == XID


def test_a_traceback_is_kept_whole() -> None:
    trace = [
        "Traceback (most recent call last):",
        *(f'  File "a.py", line {i}, in f{i}' for i in range(40)),
        "ValueError: x",
    ]
    excerpt = scan(blocks(log(20_000, {5000 + i: line for i, line in enumerate(trace)}), 30_000), LITERALS)
    assert all(at(excerpt, 5000 + i).decode() == line for i, line in enumerate(trace))


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_progress_bars_do_not_shift_numbers(end: str) -> None:
    odd = {i: "\r".join(f"{k}%|##" for k in range(20)) for i in range(2000, 3000)} | {8000: XID}
    assert at(scan(blocks(log(10_000, odd, end), 10_000), LITERALS), 8000).decode() == XID


def test_a_line_of_ten_megabytes() -> None:
    data = b"first\n" + b"x" * (5 << 20) + XID.encode() + b"y" * (5 << 20) + b"\nlast\n"
    excerpt = scan(blocks(data, 1 << 20), LITERALS)
    assert XID.encode() in at(excerpt, 2)
    assert at(excerpt, 3) == b"last"
    assert sum(len(line) for _, line in excerpt.lines) < 100_000


def test_a_text_that_is_one_line() -> None:
    data = b'{"log":"' + b"x" * (3 << 20) + XID.encode() + b"y z" * 100_000 + b'"}'
    excerpt = scan(blocks(data, 1 << 20), LITERALS)
    assert XID.encode() in at(excerpt, 1)


def test_what_never_repeats_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_shapes, "MAX_FRESH", 50_000)
    chance = random.Random(2)
    rows = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=60)) for _ in range(5000)]
    rows[3000] = XID
    excerpt = scan(blocks("\n".join(rows).encode(), 20_000), LITERALS)
    assert excerpt.limited
    assert at(excerpt, 3001).decode() == XID


def test_two_processes_give_the_numbers_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(log(60_000, {100: XID, 45_000: XID.replace("79", "48")}))
    size = path.stat().st_size
    one = long_file.of_file(path, size, "utf-8", lambda done, all_: None)
    monkeypatch.setattr(long_file, "TWO_PROCESSES", 1000)
    two = long_file.of_file(path, size, "utf-8", lambda done, all_: None)
    assert b"48" in at(two, 45_000)
    assert at(two, 60_000) == at(one, 60_000) != b""
    assert two.count == one.count == 60_001
    assert two.size == one.size == size


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_a_long_file_of_any_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "train.log"
    path.write_bytes((log(60_000, {40_000: XID}).decode() + "显卡错误\n" * 3).encode(encoding))
    (item,) = pasted.read_file(path)
    lines = dict(item.lines())
    assert lines[40_000] == XID
    assert lines[60_002] == "显卡错误"
    assert item.numbers


def test_a_literals_word_is_looked_for_in_words_that_are_long_enough() -> None:
    words = [b"a", b"bc", b"outofmemoryerror", b"memory", b"mem", b"cudaerror"]
    text, reach = long_shapes._longest_first(words, 20)
    for word in (b"a", b"c", b"ofmemory", b"memory", b"error", b"memoryerrors", b"zz", b"outofmemoryerror"):
        assert (text.find(word, 0, reach[len(word)]) >= 0) is any(word in one for one in words), word


@pytest.mark.parametrize("literal", ["memory", "outofmemoryerror", "fallen off"])
def test_a_literal_in_a_longer_word_is_found_whatever_stands_around_it(literal: str) -> None:
    data = log(5000, {2500: f"x{literal}y: z", 2501: "a b c d e f g"})
    assert at(scan([data], [literal]), 2500)
