"""`ongpu queue setup slurm`: write a configuration for one shared machine with GPUs, or check one that is there for its traps."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ongpu.fronts.answer import add_format, add_language, coloured, columns, complain, say

if TYPE_CHECKING:
    from ongpu.queue.engines.slurm.setup.here import Here
    from ongpu.queue.engines.slurm.setup.traps import Found

CLEAR, TRAPS, UNKNOWN = 0, 1, 3
MARKS = {"error": ("x", "31"), "warning": ("!", "33"), "note": ("-", "2")}
NAMES = {"error": "错误", "warning": "警告", "note": "提示"}


def add(parser: argparse.ArgumentParser) -> None:
    """The action's arguments."""
    parser.add_argument("target", choices=("slurm",), help=say("slurm", "slurm"))
    parser.add_argument("--single-node", action="store_true", help=say("for this machine alone: print the files", "仅为本机：输出配置文件"))
    parser.add_argument("--write", metavar="DIR", help=say("write the files into this folder (made where it is missing)", "把文件写入该目录（不存在则创建）"))
    parser.add_argument("--only", metavar="FILE", help=say("print this file alone: slurm.conf, gres.conf, ...", "只输出这一个文件：slurm.conf、gres.conf 等"))
    parser.add_argument("--check", nargs="*", metavar="FILE", help=say(
        "check a configuration for its traps: these files or folders (default: this machine's), and the Slurm that runs",
        "检查配置中的陷阱：给出文件或目录（默认本机配置），并与运行中的 Slurm 比较"))  # fmt: skip
    parser.add_argument("--patience", type=float, default=10.0, metavar="SECONDS", help=say("wait so long for a driver that does not answer (default: 10)", "驱动不应答时最多等待的秒数（默认 10）"))
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)  # another file system: tests
    add_format(parser, ("text", "json"))
    add_language(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """0: written, or no trap but notes; 1: traps; 2: bad usage."""
    from ongpu.queue.engines import EngineError

    try:
        if options.check is not None:
            return _check(options)
        if options.single_node or options.write:
            return _write(options)
    except EngineError as error:
        complain(error.english, error.chinese)
        return error.code
    return complain("say --single-node to write one, or --check to check one", "请用 --single-node 生成配置，或用 --check 检查配置")


# --- write


def _write(options: argparse.Namespace) -> int:
    from ongpu.queue.engines.slurm.setup.here import look
    from ongpu.queue.engines.slurm.setup.write import FOLDER, executable, files, steps

    here = look(options.root, options.patience)
    made = files(here, FOLDER)
    if options.only and options.only not in made:
        return complain(f"--only {options.only}: one of {', '.join(made)}", f"--only {options.only}：应为 {'、'.join(made)} 之一")
    if options.only:
        print(made[options.only], end="")
        return CLEAR
    if options.format == "json":
        print(json.dumps({"schema": 1, "files": made, "steps": steps(here, FOLDER, options.write or "")}, ensure_ascii=False, indent=1))
        return CLEAR
    if not options.write:
        for name, text in made.items():
            print(f"# ==== {FOLDER}/{name}")
            print(text)
    else:
        try:
            place = Path(options.write)
            place.mkdir(parents=True, exist_ok=True)
            there = [name for name in made if (place / name).exists() and (place / name).read_text("utf-8", "replace") != made[name]]
            if there:
                return complain(f"{place / there[0]} is there already, and differs: move it away first", f"{place / there[0]} 已存在且内容不同：请先移走")
            for name, text in made.items():
                (place / name).write_text(text, "utf-8")
                (place / name).chmod(0o755 if executable(name) else 0o644)
        except OSError as error:
            return complain(f"{options.write}: {error.strerror}", f"{options.write}：{error.strerror}")
        print("\n".join(str(Path(options.write) / name) for name in made))
    print(say("# To put it into use (as root; Debian, Ubuntu):", "# 启用步骤（root；Debian、Ubuntu）："))
    for step in steps(here, FOLDER, options.write or "DIR"):
        print(f"#   {step}")
    _asides(here)
    return CLEAR


def _asides(here: "Here") -> None:
    """What the reader must know of this machine before it is used."""
    lines = []
    if not here.told:
        lines.append(say("the driver did not answer: no GPU is in gres.conf (ongpu doctor says why)", "驱动没有应答：gres.conf 中没有 GPU（原因见 ongpu doctor）"))
    elif not here.gpus:
        lines.append(say("no GPU here: Slurm will give out CPUs and memory only", "本机没有 GPU：Slurm 只分配 CPU 与内存"))
    if any(gpu.mig for gpu in here.gpus):
        lines.append(say("GPUs that are partitioned (MIG) are left out, and stay open to all jobs", "开启 MIG 的 GPU 未写入，仍对所有作业开放"))
    if not here.cgroup:
        lines.append(say("no cgroups here: devices cannot be fenced", "本机没有 cgroup：无法隔离设备"))
    if here.unsafe:
        lines.append(say(
            f"{here.unsafe} may be changed by others than root, and slurmd would run it as root: install ongpu for the machine "
            "(python3 -m venv /opt/ongpu && /opt/ongpu/bin/pip install ongpu), and run this with /opt/ongpu/bin/ongpu",
            f"非 root 用户可以修改 {here.unsafe}，而 slurmd 会以 root 运行它：请为整机安装 ongpu"
            "（python3 -m venv /opt/ongpu && /opt/ongpu/bin/pip install ongpu），再用 /opt/ongpu/bin/ongpu 执行本命令"))  # fmt: skip
    for line in lines:
        print(f"ongpu: {line}", file=sys.stderr)


# --- check


def _check(options: argparse.Namespace) -> int:
    from ongpu.queue.engines.slurm.setup.checks import check
    from ongpu.queue.engines.slurm.setup.files import gather
    from ongpu.queue.engines.slurm.setup.here import look

    here = look(options.root, options.patience)
    files = gather(options.check, here.host, options.root, os.environ)
    found = check(files, here)
    lang = say("en", "zh")
    if options.format == "json":
        print(json.dumps({"schema": 1, "traps": [_dict(one) for one in found], "running": files.running is not None}, ensure_ascii=False, indent=1))
    else:
        _print(found, lang)
        if files.running is None and not options.check:
            print(say("Slurm does not answer here: only the files were checked", "这里的 Slurm 没有应答：只检查了文件"), file=sys.stderr)
    return TRAPS if any(one.trap.severity != "note" for one in found) else CLEAR


def _dict(one: "Found") -> dict[str, object]:
    (title, why), (title_zh, why_zh) = one.text("en"), one.text("zh")
    return {
        "slug": one.slug, "severity": one.trap.severity, "place": one.place, "values": dict(one.values), "mend": one.mend,
        "en": {"title": title, "why": why}, "zh": {"title": title_zh, "why": why_zh},
    }  # fmt: skip


def _print(found: "Sequence[Found]", lang: str) -> None:
    colour, width = coloured(sys.stdout), columns()

    def paint(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colour else text

    for one in found:
        mark, code = MARKS[one.trap.severity]
        title, why = one.text(lang)
        severity = NAMES[one.trap.severity] if lang == "zh" else one.trap.severity
        print(f"{paint(severity, code)}: {one.slug}  {paint(one.place, '2')}")
        for first, text in ((f"  {mark} ", title), ("    ", why)):
            print("\n".join(_wrapped(text, first, width)))
        if one.mend:
            print(f"    {say('write', '写法')}: {paint(one.mend, '36')}")
        print()
    errors = sum(one.trap.severity == "error" for one in found)
    warnings = sum(one.trap.severity == "warning" for one in found)
    notes = len(found) - errors - warnings
    counted = ", ".join(f"{many} {name}{'' if many == 1 else 's'}" for many, name in ((errors, "error"), (warnings, "warning"), (notes, "note")))
    print(say(counted, f"{errors} 个错误，{warnings} 个警告，{notes} 个提示"))


def _wrapped(text: str, first: str, width: int) -> list[str]:
    """Lines of at most so many columns; wide characters count twice and may be parted anywhere."""
    lines, here, used = [], first, len(first)
    for word in _pieces(text):
        size = sum(2 if ord(mark) > 0x2E80 else 1 for mark in word)
        if used + size > width and here.strip():
            lines.append(here.rstrip())
            here, used, word = "    ", 4, word.lstrip()
            size = sum(2 if ord(mark) > 0x2E80 else 1 for mark in word)
        here, used = here + word, used + size
    return [*lines, here.rstrip()]


def _pieces(text: str) -> list[str]:
    import re

    return re.findall(r"[\u2e80-\uffff]|\s*[^\s\u2e80-\uffff]{1,400}|\s+", text)
