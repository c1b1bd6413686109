"""`ongpu queue import`: the jobs that wait in pueue, task-spooler or Slurm, submitted here; shown first, done with --submit."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from ongpu.fronts.answer import add_language, columns, complain, say
from ongpu.fronts.queued import add_engine, guarded, opened

if TYPE_CHECKING:
    from ongpu.queue.engines import Engine
    from ongpu.queue.imports import Found, Imported

SHOWN = 30  # jobs that are listed without --all
HOW_EN = """examples:
  pueue status --json  | ongpu queue import -
  tsp -l               | ongpu queue import -
  scontrol show job    | ongpu queue import -"""
HOW_ZH = HOW_EN.replace("examples:", "示例：")


def add(parser: argparse.ArgumentParser) -> None:
    """The action's arguments."""
    parser.description = (parser.description or "") + "\n\n" + say(HOW_EN, HOW_ZH)
    parser.add_argument("file", metavar="FILE", help=say("what the other queue printed; -: standard input", "另一个队列打印的内容；- 表示标准输入"))
    parser.add_argument("--submit", action="store_true", help=say("do it (default: show what would be done)", "真正提交（默认只显示将做什么）"))
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help=say("GPUs of jobs of which the list does not say (default: 1)", "列表未写明时每个作业的 GPU 数（默认 1）"))
    parser.add_argument("--user", metavar="NAME", help=say("whose jobs, where the list says (default: mine; all)", "接管谁的作业（默认自己；all 表示所有人）"))
    parser.add_argument("--running", action="store_true", help=say("also those that run there: they would run twice", "也包括正在运行的：它们会被运行两次"))
    parser.add_argument("--all", action="store_true", help=say("list every job", "列出每个作业"))
    text = say("environment: default (all but what looks like a secret) or all", "环境变量：default（不含看似密钥的变量）或 all")
    parser.add_argument("--export", choices=("default", "all"), metavar="WHAT", help=text)
    add_engine(parser)
    add_language(parser)
    parser.set_defaults(run=guarded(run))


def run(options: argparse.Namespace) -> int:
    """Show, or submit; 0, or 2 where the list is not known."""
    from ongpu.fronts.queued import me
    from ongpu.queue.imports import Wish, read

    if not 0 <= options.gpus <= 4096:
        return complain("--gpus: from 0 to 4096", "--gpus：0 到 4096")
    text = _text(options.file)
    if text is None:
        return 2
    user = options.user or me()
    imported = read(text, Wish(options.gpus, "" if user == "all" else user, options.running))
    lang = say("en", "zh")
    _show(imported, lang, options.all)
    if options.submit and imported.jobs:
        _, engine = opened(options)
        return 0 if _submit(imported, engine, options.export) else 1
    if imported.jobs:
        print("\n" + say("nothing was submitted; --submit does it", "尚未提交；加 --submit 才会提交"))
    return 0


def _text(name: str) -> str | None:
    from ongpu.queue.imports import MOST_TEXT

    try:
        if name == "-":
            data = sys.stdin.buffer.read(MOST_TEXT)
        else:
            with open(name, "rb") as file:
                data = file.read(MOST_TEXT)
    except OSError as error:
        complain(f"{name}: {error.strerror}", f"{name}：{error.strerror}")
        return None
    return data.decode("utf-8", "replace")


def _show(imported: "Imported", lang: str, whole: bool) -> None:
    from ongpu.fronts.page import cut, folded
    from ongpu.queue import words
    from ongpu.queue.imports import LEFT, NOTES

    zh, many = lang == "zh", len(imported.jobs)
    print(f"{imported.kind}：{many} 个作业" if zh else f"{imported.kind}: {many} job{'' if many == 1 else 's'}")
    for job in imported.jobs if whole else imported.jobs[:SHOWN]:
        command = job.spec.command[2] if job.spec.command[:2] == ("sh", "-c") else " ".join(job.spec.command)
        asked = ("，" if zh else ", ").join(words.asked(job.spec, lang))
        array = f"[{words.ranges(job.array)}]" if job.array else ""
        print(cut(f"  {job.id + array:>6}  {words.plain(command)}", columns()))
        print(cut(f"          {asked}" + _begin(job, zh) + _needs(job, zh), columns()))
    if not whole and many > SHOWN:
        print(say(f"  ... and {many - SHOWN} more (--all)", f"  ……另有 {many - SHOWN} 个（--all）"))
    told: list[str] = []
    reasons: dict[str, list[str]] = {}
    for name, why in imported.left:
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        shown = ("、" if zh else ", ").join(names[:8]) + (" ..." if len(names) > 8 else "")
        told.append(f"未接管 {len(names)} 个（{shown}）：{LEFT[why][1]}" if zh else f"left {len(names)} ({shown}): {LEFT[why][0]}")
    told += [NOTES[note][zh] for note in imported.notes] if imported.jobs else []
    for line in [line for text in told for line in folded(text, max(20, columns() - 2))]:
        print(f"  {line}")


def _begin(job: "Found", zh: bool) -> str:
    from ongpu.queue.admission import at

    if job.spec.begin is None:
        return ""
    return f"，不早于 {at(job.spec.begin)}" if zh else f", not before {at(job.spec.begin)}"


def _needs(job: "Found", zh: bool) -> str:
    if not job.needs:
        return ""
    names = ", ".join(name for _, name in job.needs)
    return f"，在 {names} 之后" if zh else f", after {names}"


def _submit(imported: "Imported", engine: "Engine", export: str | None) -> bool:
    """One after the other: those that others wait for come first, and their new ids are put in. False where one was refused."""
    from ongpu.fronts.scripts import runnable
    from ongpu.lazy import replace
    from ongpu.queue.asked import without_secrets
    from ongpu.queue.engines import EngineError, refuse
    from ongpu.queue.job import Want

    new: dict[str, str] = {}
    left: dict[str, None] = {}
    for job in imported.jobs:
        spec = job.spec
        if missing := [name for _, name in job.needs if name not in new]:  # it is not to start before them
            names = ", ".join(missing[:8])
            complain(f"{job.id}: it waits for {names}, which was not taken over", f"{job.id}：它所等待的 {names} 没有被接管")
            continue
        after = tuple((kind, new[name]) for kind, name in job.needs)
        environ = spec.environ or (dict(os.environ) if engine.name in ("local", "slurm") else {})
        if export != "all":
            environ, secret = without_secrets(environ)
            left |= dict.fromkeys(secret)
        spec = replace(spec, environ=environ, after=after, folder=spec.folder or os.getcwd())
        try:
            if engine.name == "local" and not os.path.isdir(spec.folder):
                raise EngineError(f"{spec.folder}: no such folder", f"{spec.folder}：没有这个目录")
            if engine.name == "local":
                spec = replace(spec, command=tuple(runnable(list(spec.command), spec.folder)))
            refuse(spec, engine)
            ids = engine.submit([replace(spec, index=place) for place in job.array] if job.array else [spec])
        except EngineError as error:
            complain(f"{job.id}: {error.english}", f"{job.id}：{error.chinese}")
            continue
        first = engine.jobs(Want(ids=(ids[0],))).jobs if job.array else ()
        new[job.id] = first[0].array if first and first[0].array else ids[0]
        print(f"{job.id} -> {new[job.id]}")
    if left:
        names = ", ".join(list(left)[:8]) + (" ..." if len(left) > 8 else "")
        complain(f"kept from the jobs, for they look like secrets: {names}; to hand them on: --export all", f"未传给作业，因为看似密钥：{names}；如需传递：--export all")
    return len(new) == len(imported.jobs)
