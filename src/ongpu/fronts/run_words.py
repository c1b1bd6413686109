"""What was written after `ongpu run`: read, or refused in one line."""

import os
import re
from collections.abc import Callable
from typing import Any, TypeVar

from ongpu.fronts import under

T = TypeVar("T")


class Bad(Exception):
    """Bad usage, or no GPU: the words in both languages, and the exit code."""

    def __init__(self, english: str, chinese: str, code: int = 2) -> None:
        super().__init__(english)
        self.english, self.chinese, self.code = english, chinese, code


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
    if which(name, os.environ.get("PATH")) is None:
        if os.path.isdir(name):
            raise Bad(f"{name}: a folder, no command", f"{name}：是文件夹，不是命令", 126)
        if os.path.exists(name):
            more = f"not executable, or not on PATH; write: ongpu run -- python {name}" if name.endswith(".py") else "not executable (chmod +x)"
            chinese = f"没有执行权限或不在 PATH 中；请写：ongpu run -- python {name}" if name.endswith(".py") else "没有执行权限（chmod +x）"
            raise Bad(f"{name}: {more}", f"{name}：{chinese}", 126)
        raise Bad(f"{name}: command not found", f"{name}：找不到该命令", 127)
    return argv


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
