"""A job found in another queue, what is taken, and why one is left."""

import shlex
from collections.abc import Iterable, Mapping

from ongpu.lazy import dataclass
from ongpu.queue import asked
from ongpu.queue.engines import EngineError
from ongpu.queue.job import Spec

LEFT: Mapping[str, tuple[str, str]] = {
    "ended": ("it has ended", "已结束"),
    "runs": ("it runs", "正在运行"),
    "no-command": ("the list does not hold its command; take `scontrol show job`", "列表中没有它的命令；请用 `scontrol show job`"),
    "wrapped": ("its script is kept by Slurm: `scontrol write batch_script ID`", "脚本由 Slurm 保存：`scontrol write batch_script 编号`"),
    "cut": ("its command is cut off; list it in a wider terminal", "命令被截断；请在更宽的终端中列出"),
    "other-user": ("it is another user's", "属于其他用户"),
    "not-read": ("it could not be read", "无法读取"),
    "nodes": ("it wants several machines", "需要多台机器"),
    "held": ("it is held back there, and would start here at once", "它在那边被挂起，接管后会立即开始"),
    "depends": ("what it waits for has no counterpart here", "它等待的条件在这里没有对应"),
    "needs": ("it waits for a job that is not taken over", "它所等待的作业没有被接管"),
}
NOTES: Mapping[str, tuple[str, str]] = {
    "quotes": ("task-spooler's list keeps no quotes: look at the commands before --submit",
               "task-spooler 的列表不保留引号：使用 --submit 前请核对命令"),
    "environment": ("the environment is not in the list: this shell's is taken", "列表中没有环境变量：将使用当前 shell 的环境"),
    "slurm": ("variables such as SLURM_JOB_ID will not be set; ONGPU_JOB and ONGPU_ARRAY_INDEX are",
              "不会有 SLURM_JOB_ID 等变量；可用 ONGPU_JOB 与 ONGPU_ARRAY_INDEX"),
    "dependency": ("some wait for jobs that are not in the list: that is left out", "有的作业所等待的作业不在列表中：该依赖被忽略"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """A job that can be submitted. id: in the other queue. needs: ("ok" or "any", ids there) of those that are found here, too."""

    id: str
    spec: Spec
    needs: tuple[tuple[str, str], ...] = ()
    array: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """What a listing held. left: (id, a key of LEFT). notes: keys of NOTES."""

    kind: str
    jobs: tuple[Found, ...]
    left: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is taken. gpus: where the list does not say. user: only theirs, where the list says whose; "": all. running: those too."""

    gpus: int = 1
    user: str = ""
    running: bool = False


def checked(name: str, spec: Spec, needs: Iterable[tuple[str, str]] = (), array: tuple[int, ...] = ()) -> tuple[str, Found | str]:
    """(id, the job), or (id, "not-read") where a field is not what it may be."""
    try:
        return name, Found(name, asked.checked(spec), tuple(needs), array)
    except EngineError:
        return name, "not-read"


def one_line(text: str, most: int = 200) -> str:
    """The text in one line that prints."""
    return "".join(char if char.isprintable() else " " for char in text[:most]).strip()


def split(command: str) -> list[str]:
    """The words of a command, as a shell has them; at its blanks where its quotes do not match."""
    try:
        return shlex.split(command[:10_000]) or [command]
    except ValueError:
        return command.split()
