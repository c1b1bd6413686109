"""What a user named as the command: whether it can be started, and what stands at its top."""

import os


def beginning(path: str) -> str:
    """The beginning of a script; "" of what is none."""
    from ongpu.queue.header import MOST

    if not os.path.isfile(path):
        return ""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST)
    except OSError:
        return ""
    return "" if b"\0" in data else data.decode("utf-8", "replace")


def runnable(words: list[str], folder: str) -> list[str]:
    """The command as it can be started there; raises EngineError (126, 127) where it cannot: better now than in an hour."""
    from ongpu.hosts.processes import which
    from ongpu.queue.engines import EngineError

    name = words[0]
    path = os.path.join(folder, name)
    if "/" not in name and which(name, os.environ.get("PATH")):
        return words
    if not os.path.exists(path) and " " in name.strip():  # a whole command in quotes, as sbatch --wrap takes it
        raise EngineError(f"{name:.60}: one word with blanks; leave its quotes out, or write: ongpu submit -- sh -c '...'",
                          f"{name:.60}：整条命令被当成了一个词；请去掉引号，或写成：ongpu submit -- sh -c '...'", 127)  # fmt: skip
    if not os.path.exists(path) and "/" in name:
        raise EngineError(f"{name}: no such file", f"{name}：没有这个文件", 127)
    if not os.path.exists(path):
        raise EngineError(f"{name}: command not found", f"{name}：找不到该命令", 127)
    if os.path.isdir(path):
        raise EngineError(f"{name}: a folder, no command", f"{name}：是文件夹，不是命令", 126)
    first = beginning(path).split("\n", 1)[0]
    program = first[2:].split() if first.startswith("#!") else []
    if first.endswith("\r"):
        raise EngineError(f"{name}: its lines end as Windows has them; run: sed -i 's/\\r$//' {name}", f"{name}：行尾是 Windows 格式；请运行：sed -i 's/\\r$//' {name}", 126)
    if program and not os.access(program[0], os.X_OK):
        raise EngineError(f"{name}: its first line names {program[0]}, which is not here", f"{name}：首行指定的 {program[0]} 不存在", 127)
    if os.access(path, os.X_OK):
        return words if "/" in name else [f"./{name}", *words[1:]]
    if program:  # as sbatch does: the run bit is not needed
        return [*program, *words]
    how = f"python {name}" if name.endswith(".py") else f"bash {name}"
    raise EngineError(f"{name}: not executable; write: ongpu submit -- {how}", f"{name}：没有执行权限；请写：ongpu submit -- {how}", 126)
