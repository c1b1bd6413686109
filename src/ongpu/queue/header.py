"""`#ONGPU --gpus 2` lines at the top of a script: options of `ongpu submit`, as `#SBATCH` lines are of sbatch."""

import shlex

MARK = "#ONGPU"
MOST, LINES = 64 << 10, 500  # bytes and lines that are looked at


class HeaderError(ValueError):
    """A line that cannot be used: English, Chinese."""

    def __init__(self, english: str, chinese: str) -> None:
        super().__init__(english)
        self.english, self.chinese = english, chinese


def options(text: str) -> list[str]:
    """The words of those lines; they end, as sbatch's do, at the first line that is neither empty nor a comment. Error: HeaderError."""
    found: list[str] = []
    for number, line in enumerate(text[:MOST].splitlines()[:LINES], 1):
        bare = line.strip()
        if bare and not bare.startswith("#"):
            break
        mark, rest = bare[: len(MARK)], bare[len(MARK) :]
        if mark != MARK or not rest[:1].isspace():
            continue
        try:
            words = shlex.split(rest, comments=True)
        except ValueError as error:
            raise HeaderError(f"line {number}: {error}", f"第 {number} 行：引号不配对") from None
        if words and not words[0].startswith("-"):
            raise HeaderError(f"line {number}: options only, as in {MARK} --gpus 2", f"第 {number} 行：只能写选项，如 {MARK} --gpus 2")
        if "--" in words:
            raise HeaderError(f"line {number}: no command here", f"第 {number} 行：此处不能写命令")
        found += words
    return found


def others(text: str) -> str:
    """The mark of another queue's lines at its top ("#SBATCH", "#PBS"), where there are any and none of ours; else ""."""
    top = []
    for line in text[:MOST].splitlines()[:LINES]:
        bare = line.strip()
        if bare and not bare.startswith("#"):
            break
        top.append(bare)
    if any(line.startswith(MARK) for line in top):
        return ""
    return next((mark for mark in ("#SBATCH", "#PBS", "#BSUB") for line in top if line.startswith(mark + " ")), "")
