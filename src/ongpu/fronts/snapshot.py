"""`ongpu snapshot`: this machine's evidence as one redacted archive that any other machine can judge."""

import argparse
import getpass
import socket
import time
from pathlib import Path

from ongpu import __version__
from ongpu.engine import all_sources
from ongpu.fronts.answer import add_language, add_python, complain, say
from ongpu.hosts import recorded, redact
from ongpu.hosts.interpreter import machine
from ongpu.hosts.live import gather


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("-o", "--output", metavar="FILE", help=say("where to write it (default: ongpu-DATE.tar.gz here)", "写到哪里（默认：当前目录 ongpu-日期.tar.gz）"))
    parser.add_argument("--show", action="store_true", help=say("list what would go in; write nothing", "只列出会写入的内容，不写文件"))
    add_python(parser)
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)
    add_language(parser)
    parser.set_defaults(run=run)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def run(options: argparse.Namespace) -> int:
    """Gather, redact, write."""
    redactor = redact.for_this_machine(_user(), socket.gethostname())
    evidence = [redactor.evidence(item) for item in gather(machine(options.root, options.python), all_sources())]
    if options.show:
        for item in evidence:
            print(f"{item.kind:20} {len(item.text):9,} B  {item.origin}" + (f"   ({item.problem})" if item.problem else ""))
        print(say(f"masked: {len(redactor.seen)} names, addresses, serials, UUIDs", f"已遮盖：{len(redactor.seen)} 个名称、地址、序列号、UUID"))
        return 0
    path = Path(options.output or time.strftime("ongpu-%Y%m%d-%H%M%S.tar.gz"))
    try:
        recorded.write(evidence, path, __version__)
    except OSError as error:
        return complain(f"cannot write {path}: {error.strerror}", f"无法写入 {path}：{error.strerror}")
    print(say(f"{path} written. Judge it anywhere: ongpu doctor {path}", f"已写入 {path}。可在任何机器上检查：ongpu doctor {path}"))
    return 0
