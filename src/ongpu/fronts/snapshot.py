"""`ongpu snapshot`: this machine's evidence as one redacted archive that any other machine can judge."""

import argparse
import getpass
import json
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ongpu import __version__
from ongpu.engine import all_sources
from ongpu.fronts.answer import add_format, add_language, add_python, complain, say
from ongpu.fronts.examined import no_python
from ongpu.hosts import recorded, redact
from ongpu.hosts.interpreter import machine
from ongpu.hosts.live import gather
from ongpu.model import Evidence


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("-o", "--output", metavar="FILE", help=say("where to write it; - for standard output (default: ongpu-DATE.tar.gz here)", "写到哪里；- 为标准输出（默认：当前目录 ongpu-日期.tar.gz）"))
    parser.add_argument("--force", action="store_true", help=say("replace a file that is there", "覆盖已有文件"))
    parser.add_argument("--show", action="store_true", help=say("list what would go in; write nothing", "只列出会写入的内容，不写文件"))
    parser.add_argument("--all", action="store_true", help=say("with --show: the masked texts themselves, too", "配合 --show：同时显示脱敏后的文本"))
    add_python(parser)
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)
    add_format(parser)
    add_language(parser)
    parser.set_defaults(run=run)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def run(options: argparse.Namespace) -> int:
    """Gather, redact, write."""
    path = Path(options.output or time.strftime("ongpu-%Y%m%d-%H%M%S.tar.gz"))
    streamed = options.output == "-"
    if streamed and not options.show and sys.stdout.isatty():
        return complain("the archive is binary: send it into a file or a pipe, not to the terminal", "归档是二进制数据：请重定向到文件或管道，不要输出到终端")
    if path.exists() and not (options.show or options.force or streamed):
        return complain(f"{path} is there already; name another file, or --force to replace it", f"{path} 已存在；请换一个文件名，或用 --force 覆盖")
    if wrong := no_python(options.python):
        return complain(*wrong)
    redactor = redact.for_this_machine(_user(), socket.gethostname())
    evidence = redactor.every(gather(machine(options.root, options.python), all_sources()))
    if options.show:
        print(_listed(evidence, len(redactor.seen), options, None))
        return 0
    try:
        if streamed:
            recorded.write(evidence, sys.stdout.buffer, __version__)
            return 0
        recorded.write(evidence, path, __version__)
    except OSError as error:
        return complain(f"cannot write {path}: {error.strerror}", f"无法写入 {path}：{error.strerror}")
    if options.format != "text":
        print(_listed(evidence, len(redactor.seen), options, path))
    else:
        print(say(f"{path} written. Judge it anywhere: ongpu doctor {path}", f"已写入 {path}。可在任何机器上检查：ongpu doctor {path}"))
    return 0


def _listed(evidence: Sequence[Evidence], masked: int, options: argparse.Namespace, written: Path | None) -> str:
    """What is in a snapshot, as asked for."""
    if options.format == "json":
        rows = [
            {"kind": e.kind, "origin": e.origin, "characters": len(e.text), "problem": e.problem, **({"text": e.text} if options.all else {})}
            for e in evidence
        ]
        return json.dumps({"schema": 1, "written": str(written) if written else None, "masked": masked, "evidence": rows}, ensure_ascii=False, indent=1)
    if options.format == "markdown":
        lines = ["| kind | characters | origin | problem |", "|---|---:|---|---|"]
        lines += [*(f"| {e.kind} | {len(e.text):,} | `{e.origin}` | {e.problem or ''} |" for e in evidence), ""]
    else:
        lines = [f"{e.kind:20} {len(e.text):9,} B  {e.origin}" + (f"   ({e.problem})" if e.problem else "") for e in evidence]
    if options.all:
        lines += [f"\n--- {e.kind}: {e.origin}\n{e.text}" for e in evidence if e.text.strip()]
    return "\n".join([*lines, say(f"masked: {masked} names, addresses, serials, UUIDs", f"已遮盖：{masked} 个名称、地址、序列号、UUID")])
