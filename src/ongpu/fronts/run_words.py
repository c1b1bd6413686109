"""What was written after `ongpu run`: read, or refused in one line; and where its own words go."""

import codecs
import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO, TypeVar

from ongpu.fronts import under

T = TypeVar("T")
FIRST = 4096  # bytes of a file that tell what it is


class Bad(Exception):
    """Bad usage, or no GPU: the words in both languages, and the exit code."""

    def __init__(self, english: str, chinese: str, code: int = 2) -> None:
        super().__init__(english)
        self.english, self.chinese, self.code = english, chinese, code


class Aside:
    """Standard error for what we say beside the command: where nobody reads it any more, or the disk is full, the command runs all the same,
    and its exit code is ours."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """As far as it can be written."""
        with contextlib.suppress(OSError, ValueError):
            return self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        """As far as it can be."""
        with contextlib.suppress(OSError, ValueError):
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Nothing that we say can fail meanwhile."""
    before = sys.stderr
    sys.stderr = Aside(before)
    try:
        yield
    finally:
        sys.stderr = before


def fit(function: Callable[..., T], *arguments: Any) -> T:
    """Its answer; Bad where the tool that is asked for is unfit."""
    try:
        return function(*arguments)
    except under.Unfit as error:
        raise Bad(error.english, error.chinese) from None


def command(words: list[str]) -> list[str]:
    """The command, without the "--" before it. Raises Bad (126, 127: as shells) where it cannot be started."""
    from ongpu.hosts.processes import which

    argv = words[1:] if words[:1] == ["--"] else words
    if not argv:
        raise Bad("run: no command; write: ongpu run -- python train.py", "run：没有命令；请写：ongpu run -- python train.py")
    name = argv[0]
    found = which(name, os.environ.get("PATH"))
    if found is None:
        if os.path.isdir(name):
            raise Bad(f"{name}: a folder, no command", f"{name}：是文件夹，不是命令", 126)
        if os.path.exists(name):
            more = f"not executable, or not on PATH; write: ongpu run -- python {name}" if name.endswith(".py") else "not executable (chmod +x)"
            chinese = f"没有执行权限或不在 PATH 中；请写：ongpu run -- python {name}" if name.endswith(".py") else "没有执行权限（chmod +x）"
            raise Bad(f"{name}: {more}", f"{name}：{chinese}", 126)
        raise Bad(f"{name}: command not found", f"{name}：找不到该命令", 127)
    if bad := _unstartable(found):
        raise Bad(f"{name}: {bad[0]}", f"{name}：{bad[1]}", bad[2])
    return argv


def _unstartable(path: str) -> tuple[str, str, int] | None:
    """Why the kernel would not start a file that may be executed: told now, not after hours of waiting for a GPU. With the exit code."""
    try:
        with open(path, "rb") as file:
            start = file.read(FIRST)
    except OSError:  # it may be executed and not read
        return None
    line = start.partition(b"\n")[0]
    if not line.startswith(b"#!"):
        if b"\0" in start or not _is_text(start):  # a program, of whatever machine
            return None
        english, chinese = "its first line names no interpreter (#!/bin/sh)", "首行没有指定解释器（#!/bin/sh）"
        return f"{english}; write: ongpu run -- sh {path}", f"{chinese}；请写：ongpu run -- sh {path}", 126
    words = line[2:].strip(b" \t").split()
    shown = os.fsdecode(words[0]) if words else ""
    if line.endswith(b"\r"):  # a part of the name, to the kernel, or of an argument
        english, chinese = "its lines end as on Windows; mend them", "换行符是 Windows 格式；请改正"
        return f"{english}: sed -i 's/\\r$//' {path}", f"{chinese}：sed -i 's/\\r$//' {path}", 127
    if shown and not os.path.exists(shown):
        return f"its first line names an interpreter that is not there: {shown}", f"首行指定的解释器不存在：{shown}", 127
    return None


def _is_text(start: bytes) -> bool:
    """Whether it is UTF-8, but for a letter that may be cut at its end."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return True


def count(text: str, option: str, most: int) -> int:
    """A number. Raises Bad."""
    if not re.fullmatch(r"\d{1,4}", text) or int(text) > most:
        raise Bad(f"{option} {text}: a number from 0 to {most}", f"{option} {text}：应为 0 到 {most} 的数")
    return int(text)


def memory(text: str) -> int:
    """MiB. Raises Bad."""
    from ongpu.queue import asked
    from ongpu.queue.engines import EngineError

    try:
        return asked.size(text)
    except EngineError as error:
        raise Bad(error.english, error.chinese) from None
