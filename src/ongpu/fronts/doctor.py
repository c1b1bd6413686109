"""`ongpu` and `ongpu doctor`: why the GPU of this machine (or of a snapshot) is not used."""

import argparse
import re
from pathlib import Path

from ongpu.engine import diagnose
from ongpu.fronts.answer import add_options, add_python, complain, say, show
from ongpu.fronts.examined import examine, no_python

# the sentences of hosts/recorded.py, in Chinese
_CHINESE = (
    (r"snapshot of schema (.{1,40}?); this ongpu reads (\d{1,4}): update ongpu", r"快照格式版本为 \1，本 ongpu 只能读 \2：请升级 ongpu"),
    (r"damaged snapshot: ", "快照已损坏："),
    (r"more than (\d{1,9}) files: not a snapshot", r"文件超过 \1 个：不是快照"),
    (r"more than (\d{1,9}) MiB unpacked: not read", r"解压后超过 \1 MiB：未读取"),
)


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("snapshot", nargs="?", metavar="SNAPSHOT", help=say("a snapshot to examine instead of this machine", "要检查的快照文件（默认检查本机）"))
    add_python(parser)
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)  # another file system: rescue systems and tests
    add_options(parser, ("text", "json", "markdown", "html"))
    parser.set_defaults(run=run)


def _reason(error: Exception) -> tuple[str, str]:
    """Why a snapshot cannot be read, in English and Chinese."""
    cause = error.__cause__ or error
    if isinstance(cause, FileNotFoundError):
        return "no such file", "没有这个文件"
    if isinstance(cause, PermissionError):
        return "permission denied", "没有读取权限"
    words = str(error)
    if words.startswith(("not a snapshot", "cannot be read as a snapshot archive")):
        return "not a snapshot of ongpu; for other files use: ongpu explain FILE", "不是 ongpu 的快照；其他文件请用：ongpu explain 文件"
    for pattern, chinese in _CHINESE:
        if re.match(pattern, words, re.DOTALL):
            return words, re.sub(pattern, chinese, words, count=1, flags=re.DOTALL)
    return words, words


def run(options: argparse.Namespace) -> int:
    """Examine, judge, tell."""
    if wrong := no_python(options.python):
        return complain(*wrong)
    if not options.snapshot:
        return show(examine(options.root, options.python), options, links=True)
    from ongpu.hosts import recorded  # archives are not needed for this machine

    try:
        evidence = recorded.read(Path(options.snapshot))
    except (OSError, ValueError) as error:
        english, chinese = _reason(error)
        return complain(f"{options.snapshot}: {english}", f"{options.snapshot}：{chinese}")
    return show(diagnose(evidence, options.snapshot), options, links=True)
