import io
import os
import pty
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import Pretend

from ongpu.fronts.logs import harmless
from ongpu.fronts.outputs import cut, last_lines

Ask = Callable[..., tuple[int, str, str]]


def test_bytes_pass_unchanged_where_there_is_no_terminal(pretend: Pretend, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    pretend.put("1", "done", attempts=1)
    data = bytes(range(256)) * 3 + b"\x1b[2J"
    pretend.outputs["1"] = [data[:100], data[100:]]
    from ongpu.fronts import cli

    assert cli.run(["logs", "1"]) == 0
    assert capfdbinary.readouterr().out == data


def test_the_last_lines(ask: Ask, pretend: Pretend) -> None:
    pretend.put("1", "done", attempts=1)
    pretend.outputs["1"] = [b"one\ntw", b"o\nthr", b"ee\nfour\n"]
    assert ask("logs", "1", "--tail", "2")[:2] == (0, "three\nfour\n")
    assert ask("logs", "1", "--tail", "0")[:2] == (0, "")
    assert ask("logs", "1", "--tail", "9")[1] == "one\ntwo\nthree\nfour\n"
    pretend.outputs["1"] = [b"one\ntwo\n", b"", b"three\n", b"", b"four\n"]  # followed: what comes later is all printed
    assert ask("logs", "1", "-f", "--tail", "1")[1] == "two\nthree\nfour\n"


@given(st.lists(st.binary(max_size=30)), st.integers(0, 9))
def test_cut_is_what_tail_gives(pieces: list[bytes], lines: int) -> None:
    data = b"".join(pieces)
    whole = io.BytesIO(data).readlines()
    assert cut(data, lines) == b"".join(whole[len(whole) - lines :] if lines < len(whole) else whole) if lines else cut(data, lines) == b""


def test_which_jobs(ask: Ask, pretend: Pretend) -> None:
    assert ask("logs", "4")[0::2] == (1, "ongpu: no such job: 4\n")
    pretend.put("1", "waiting")
    assert ask("logs", "1")[0::2] == (0, "ongpu: job 1 has not started\n")
    pretend.put("2", "done", attempts=1, array="9")
    pretend.put("3", "done", attempts=1, array="9")
    pretend.outputs = {"2": [b"two\n"], "3": [b"three\n"]}
    assert ask("logs", "9")[1] == "==> 2 <==\ntwo\n==> 3 <==\nthree\n"
    assert ask("logs", "9", "-f")[0] == 2
    assert ask("logs", "2", "--tail", "-1")[0] == 2
    assert ask("logs", "2", "--attempt", "0")[0] == 2
    del pretend.outputs["2"]
    assert ask("logs", "2")[0::2] == (2, "ongpu: its output is gone\n")
    assert ask("logs", "9") == (2, "==> 2 <==\n==> 3 <==\nthree\n", "ongpu: its output is gone\n")  # the other one's is printed
    assert ask("logs")[0] == 2


def clean(*pieces: bytes) -> bytes:
    return b"".join(harmless(pieces))


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x1b[31mred\x1b[0m\r\n50%\r\x1b[K", b"\x1b[31mred\x1b[0m\r\n50%\r\x1b[K"),
        (b"\x1b[38;5;196;1mx\x1b[m\t\xe4\xb8\xad", b"\x1b[38;5;196;1mx\x1b[m\t\xe4\xb8\xad"),
        (b"a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c", b"abc"),
        (b"\x1b[2J\x1b[H\x1b[1A\x1b[?1049h\x1bc\x1b(0x", b"x"),
        (b"\x1bPq payload \x1b\\z", b"z"),
        (b"bell\x07 back\x08 null\x00 del\x7f", b"bell^G back^H null^@ del^?"),
        (b"\xc2\x9b2J", b"\xef\xbf\xbd2J"),
        (b"\x9b2J\xff", b"\xef\xbf\xbd2J\xef\xbf\xbd"),
        (b"\x1b", b"^["),
        (b"\x1b]0;never ends", b"^[]0;never ends"),
    ],
)
def test_a_terminal_obeys_colours_alone(data: bytes, shown: bytes) -> None:
    assert clean(data) == shown
    assert clean(*(data[n : n + 1] for n in range(len(data)))) == shown  # however it is cut


@given(
    st.lists(
        st.binary(max_size=40) | st.sampled_from([b"\x1b[", b"\x1b]0;", b"\x07", b"\x1b\\", b"31m", b"2J", b"\xc2", b"\x9b", b"\x1bP"]),
        max_size=12,
    )
)
def test_no_other_control_ever_comes_through(pieces: list[bytes]) -> None:
    text = clean(*pieces).decode()
    import re

    rest = re.sub(r"\x1b\[[0-9;:]*[mK]", "", text)
    assert all(char in "\n\r\t" or not (ord(char) < 32 or 127 <= ord(char) < 160) for char in rest)


def test_endless_sequences_are_not_kept_for_ever() -> None:
    fed = 0

    def pieces() -> "object":
        nonlocal fed
        yield b"\x1b]0;"
        for _ in range(1000):
            fed += 1
            yield b"x" * 1000

    got = next(harmless(pieces()))  # type: ignore[arg-type]
    assert got.startswith(b"^[]0;")
    assert fed < 10


def test_a_job_that_never_started(ask: Ask, pretend: Pretend) -> None:
    pretend.put("1", "cancelled", ended=1.0, ending="dependency")
    pretend.put("2", "waiting")
    assert ask("logs", "1") == (0, "", "ongpu: job 1 never started\n")
    assert ask("logs", "1", "--lang", "zh")[2] == "ongpu: 作业 1 从未开始运行\n"
    assert ask("logs", "2")[2] == "ongpu: job 2 has not started\n"


def test_on_a_terminal_it_is_cleaned(ask: Ask, pretend: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend.put("1", "done", attempts=1)
    pretend.outputs["1"] = [b"a\x1b[2Jb\n"]
    ours, theirs = pty.openpty()
    try:
        with open(theirs, "w", closefd=True) as terminal:
            monkeypatch.setattr("sys.stdout", terminal)
            from ongpu.fronts import cli

            assert cli.run(["logs", "1"]) == 0
            assert os.read(ours, 100) == b"ab\r\n"
    finally:
        os.close(ours)


@given(st.binary(max_size=400), st.integers(1, 12))
def test_the_end_is_read_in_steps(data: bytes, lines: int) -> None:
    engine = Pretend()
    engine.outputs["1"] = [data]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ongpu.fronts.outputs.STEP", 7)
        assert last_lines(engine, "1", lines, 1 << 20) == cut(data, lines)


def test_of_a_file_only_the_end_is_read(ask: Ask, pretend: Pretend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "output"
    with file.open("wb") as out:
        out.truncate(1 << 33)
        out.seek(0, 2)
        out.write(b"\none\ntwo\n")
    monkeypatch.setattr(pretend, "output_file", lambda job, attempt: str(file), raising=False)
    pretend.put("1", "done", attempts=1)
    assert ask("logs", "1", "--tail", "2")[1] == "one\ntwo\n"
    file.unlink()
    assert "cannot be read" in ask("logs", "1", "--tail", "2")[2]
