"""`ongpu submit`: hands a command to the queue; prints its id."""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ongpu.fronts.answer import add_language, say
from ongpu.fronts.queued import add_engine, guarded, hint, opened, tell

if TYPE_CHECKING:
    from ongpu.queue.engines import Engine
    from ongpu.queue.job import Spec, Told

HERE = ("local", "slurm")  # engines whose jobs find this machine's folders and this shell's environment
OWN = ("CUDA_VISIBLE_DEVICES", "ONGPU_JOB", "ONGPU_ATTEMPT", "ONGPU_ARRAY_INDEX")  # of a job that submits another
BARE = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER")  # --export none leaves these
_INTERPRETER = re.compile(r"(?:ba|da|z|k)?sh|python[0-9.]{0,8}")  # whose script may say what it needs
SHOWN = 8  # names of variables in one line
LOOK, SOON, AGAIN = 0.3, 0.02, 2.0  # seconds: between two looks of --wait, and at its beginning; between two starts of a daemon that is gone


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments. All defaults are None: so what the script's own lines say is told from what was typed."""

    def option(name: str, metavar: str, english: str, chinese: str, **more: Any) -> None:
        group.add_argument(f"--{name}", metavar=metavar, help=say(english, chinese), **more)

    def flag(name: str, english: str, chinese: str) -> None:
        group.add_argument(f"--{name}", action="store_true", default=None, help=say(english, chinese))

    group = parser.add_argument_group(say("what it needs", "需要什么"))
    option("gpus", "N", "how many GPUs (default: 1; 0: none)", "需要几块 GPU（默认 1；0 表示不用）")
    option("memory", "SIZE", "memory that each GPU must have: 20GiB; with --share: that it will use", "每块 GPU 至少要有的显存：20GiB；与 --share 合用时为将使用的显存")
    flag("share", "a part of a GPU, by its memory; others of this queue may be on it", "按显存共用一块 GPU，可与本队列的其他作业同卡")
    option("model", "NAME", "a part of the GPU's name: A100", "GPU 名称的一部分：A100")
    option("capability", "X.Y", "compute capability, at least: 8.0", "计算能力下限：8.0")
    option("time", "LENGTH", "time limit: 30m, 4h, 1d12h; short ones start sooner", "时限：30m、4h、1d12h；声明时限能更早开始")
    option("cpus", "N", "CPU cores (local: advisory, counted and not enforced)", "CPU 核数（本机队列：仅作统计，不强制）")
    option("host-memory", "SIZE", "the host's memory (RAM): 64GiB (local: advisory)", "主机内存：64GiB（本机队列：仅作统计，不强制）")
    group = parser.add_argument_group(say("how it runs", "如何运行"))
    option("chdir", "FOLDER", "working directory (default: this one)", "工作目录（默认当前目录）")
    option("export", "WHAT", "environment: default (all but what looks like a secret), all, none; names and NAME=VALUE, with commas",
           "环境变量：default（默认，不含看似密钥的变量）、all、none；或变量名与 变量=值，用逗号分隔")
    option("output", "FILE", "its output; %%a: the array's index (default: kept by the queue, see ongpu logs)", "输出文件；%%a 为数组序号（默认由队列保存，见 ongpu logs）")
    option("array", "RANGE", "one job for each index: 0-99, 0-99%%8 (8 at once), 1,3,7; in ONGPU_ARRAY_INDEX", "每个序号一个作业：0-99、0-99%%8（同时 8 个）、1,3,7；序号见 ONGPU_ARRAY_INDEX")
    option("retries", "N", "run it again after a GPU's fault, at most so often (default: 1)", "GPU 故障后最多重新运行几次（默认 1）")
    option("retry-on", "WHAT", "gpu-fault (default) or any failure: any", "哪种失败才重试：gpu-fault（默认）或 any", choices=("gpu-fault", "any"))
    option("checkpoint", "SIGNAL", "it saves its state and ends at this signal (SIGUSR1): it may be interrupted, and starts sooner", "收到该信号（如 SIGUSR1）后保存状态并退出：可被中断，因而更早开始")
    option("saved", "GLOB", "with --checkpoint: the file that must be newer after that", "保存后应更新的文件（通配符）")
    option("grace", "LENGTH", "between a signal and the kill (default: 30s)", "发出信号到强制结束之间的时间（默认 30s）")
    option("idle", "LENGTH", "warn when its GPUs are not used for so long: 30m", "GPU 空闲多久后警告：30m")
    flag("idle-stop", "and stop it, the same time later", "再过同样时间仍空闲则停止")
    option("on-reboot", "WHAT", "after a restart of the machine: requeue (default) or fail", "机器重启后：requeue（默认，重新排队）或 fail", choices=("requeue", "fail"))
    group = parser.add_argument_group(say("when, and for whom", "何时运行、归属"))
    option("name", "NAME", "what it is called (default: its script)", "作业名（默认为脚本名）")
    option("project", "NAME", "the project that it counts for", "所属项目")
    option("priority", "N", "-10 to 10", "-10 到 10")
    option("after", "ID,...", "start when these have ended well", "在这些作业成功结束之后开始")
    option("after-any", "ID,...", "start when these have ended, however", "在这些作业结束之后开始，无论成败")
    option("begin", "TIME", "not before: 22:00, +2h, 2026-12-01T06:00", "不早于：22:00、+2h、2026-12-01T06:00")
    option("reservation", "NAME", "use the GPUs that were reserved under that name", "使用以该名称预留的 GPU")
    option("notify", "URL", "tell this address (Apprise) when it is done, fails or is cancelled", "完成、失败或取消时通知该地址（Apprise）")
    group = parser.add_argument_group(say("this command", "本命令"))
    add_engine(group)
    flag("wait", "until it has ended; its exit code is ours", "等到作业结束，并以其退出码退出")
    flag("json", "print the ids as JSON", "以 JSON 输出编号")
    add_language(group)
    parser.add_argument("command_line", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help=say(
        "the command; of a script, lines such as #ONGPU --gpus 2 at its top are read too", "要运行的命令；若是脚本，其开头 #ONGPU --gpus 2 这样的行也会读取"))  # fmt: skip
    parser.usage = say("ongpu submit [options] -- COMMAND [ARGUMENT ...]", "ongpu submit [选项] -- 命令 [参数 ...]")
    parser.set_defaults(run=guarded(run))


def run(options: argparse.Namespace) -> int:
    """Submit; 0, or with --wait the job's own exit code."""
    from ongpu.queue.engines import refuse

    config, engine = opened(options)
    specs, secrets = _specs(options, engine, config.idle_after)
    refuse(specs[0], engine)
    ids = engine.submit(specs)
    shown = ids[0] if len(ids) == 1 else _array(engine, ids)
    try:
        print(json.dumps({"id": shown, "ids": ids}) if options.json else shown, flush=True)
    except OSError:
        tell(f"submitted as {shown}", f"已提交，编号 {shown}")  # nobody is to submit it again
        raise
    unasked(secrets)
    _asleep(engine)
    _hints(specs[0], engine, shown, len(ids))
    return _wait(engine, ids, shown) if options.wait else 0


def _array(engine: "Engine", ids: Sequence[str]) -> str:
    """The id by which all of them are meant."""
    from ongpu.queue.job import Want

    bases = {name.rpartition("_")[0] for name in ids}  # as Slurm names them: 12_0, 12_1
    if len(bases) == 1 and (base := bases.pop()):
        return base
    jobs = engine.jobs(Want(ids=(ids[0],))).jobs
    return jobs[0].array if jobs and jobs[0].array else ",".join(ids)


def _hints(spec: "Spec", engine: "Engine", shown: str, count: int) -> None:
    from ongpu.lazy import field_names

    plain = type(spec)(command=spec.command)
    if spec.gpus and "gpus" in engine.advisory and _first(engine):
        tell(*engine.advisory["gpus"])
    for name in field_names(spec):
        if name != "gpus" and name in engine.advisory and getattr(spec, name) != getattr(plain, name):
            tell(*engine.advisory[name])
    many = (f"{count} jobs; ", f"共 {count} 个作业；") if count > 1 else ("", "")
    first = shown if count == 1 else f"{shown}[{spec.index}]"
    hint(f"{many[0]}how it goes: ongpu jobs {shown}; its output: ongpu logs -f {first}", f"{many[1]}查看：ongpu jobs {shown}；输出：ongpu logs -f {first}")


def _first(engine: "Engine") -> bool:
    """Whether nobody has been told so of this queue: then a stamp is left in its folder."""
    if (folder := getattr(engine, "folder", None)) is None:
        return False  # `ongpu queue status` says it
    try:
        os.close(os.open(os.path.join(folder, "advised"), os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True


def _asleep(engine: "Engine") -> None:
    """Says it where nothing of what was submitted will begin: the engine's daemon does not start."""
    if (look := getattr(engine, "asleep", None)) is not None and (told := look()):
        tell(*told)


def _wait(engine: "Engine", ids: Sequence[str], shown: str) -> int:
    """Until all have ended; the worst exit code. A daemon that is gone meanwhile is started again: nobody else may do so."""
    from ongpu.queue.job import LIVE, LOST, Want

    begun = roused = time.monotonic()
    said, one = None, ids[-1]  # of many, one that lives is looked at: that is quick
    try:
        while True:
            listing = engine.jobs(Want(ids=(one,)))
            if not any(job.state in LIVE for job in listing.jobs):
                listing = engine.jobs(Want(ids=tuple(ids), states=tuple(LIVE), most=1))
                if not listing.jobs:
                    break
                one = listing.jobs[0].id
            if listing.warning and time.monotonic() - roused > AGAIN and (rouse := getattr(engine, "rouse", None)) is not None:
                told = listing.warning if said else ("the queue's daemon was gone: started again", "队列守护进程已退出：已重新启动")
                if told != said:
                    tell(*told)
                roused, said = time.monotonic(), told
                rouse()
            time.sleep(min(LOOK, SOON + (time.monotonic() - begun) / 20))  # of a short job the end is heard of soon
    except KeyboardInterrupt:
        hint(f"it goes on; to stop it: ongpu cancel {shown}", f"作业继续进行；如需停止：ongpu cancel {shown}")
        raise
    jobs = engine.jobs(Want(ids=tuple(ids), most=None)).jobs
    for job in jobs:
        _told(job)
    return max((1 if job.state == LOST or job.code is None else job.code for job in jobs), default=1)


def _told(job: "Told") -> None:
    from ongpu.queue.words import ending

    if job.code != 0:
        lang = say("en", "zh")
        print(f"ongpu: {job.id}: {ending(job, lang)}" + (f" ({job.slug})" if job.slug else ""), file=sys.stderr)


# --- what was asked


def _specs(options: argparse.Namespace, engine: "Engine", idle: float | None = None) -> "tuple[list[Spec], list[str]]":
    """One for each job; the variables that it does not get, for they look like secrets. idle: the configuration's. Raises EngineError."""
    from ongpu.fronts.scripts import runnable
    from ongpu.lazy import replace
    from ongpu.queue import asked
    from ongpu.queue.engines import EngineError
    from ongpu.queue.job import Spec, output_of
    from ongpu.queue.words import called

    words = options.command_line[1:] if options.command_line[:1] == ["--"] else options.command_line
    if not words or not words[0].strip():
        raise EngineError("no command; write: ongpu submit -- python train.py", "没有命令；请写：ongpu submit -- python train.py")
    local = engine.name in HERE
    folder = _folder(options.chdir, here=local) if local or options.chdir else ""
    words, told = _with_header(words, options, folder)
    folder = _folder(told.chdir, folder, local) if told.chdir and told.chdir != options.chdir else folder
    if engine.name == "local":
        words = runnable(words, folder)
    environ, secrets = _environ(told.export or ("default" if local else "none"), folder, local)
    at_once, places = None, None
    if told.array:
        places, at_once = asked.array(told.array)
    gpus = 1 if told.gpus is None else _number(told.gpus, "--gpus")
    values: dict[str, Any] = {
        "gpus": gpus, "priority": _number(told.priority or "0", "--priority"),
        "retries": asked.retries(engine.name, gpus, told.retry_on or "") if told.retries is None else _number(told.retries, "--retries"),
        "share": bool(told.share), "idle_stop": bool(told.idle_stop),
        "name": told.name or called(words), "project": told.project or "", "model": told.model or "", "saved": told.saved or "",
        "notify": told.notify or "", "reservation": told.reservation or "", "folder": folder, "at_once": at_once,
        "cpus": _number(told.cpus, "--cpus") if told.cpus else None,
        "memory": asked.size(told.memory) if told.memory else None,
        "host_memory": asked.size(told.host_memory, "--host-memory") if told.host_memory else None,
        "capability": asked.capability(told.capability) if told.capability else None,
        "limit": asked.duration(told.time) if told.time else None,
        "idle": asked.duration(told.idle, "--idle") if told.idle else idle if told.idle_stop else None,
        "begin": asked.moment(told.begin, time.time()) if told.begin else None,
        "checkpoint": asked.signal_name(told.checkpoint) if told.checkpoint else "",
        "after": (*(asked.after(told.after) if told.after else ()), *(asked.after(f"any:{told.after_any}", "--after-any") if told.after_any else ())),
        "environ": environ,
        "output": _output(told.output, folder) if told.output else "",
    }  # fmt: skip
    values |= {"grace": asked.duration(told.grace, "--grace")} if told.grace else {}
    values |= {"retry_on": told.retry_on} if told.retry_on else {}
    values |= {"on_reboot": told.on_reboot} if told.on_reboot else {}
    if told.idle_stop and not values["idle"]:
        raise EngineError("--idle-stop: after how long? --idle 30m", "--idle-stop：空闲多久？请加 --idle 30m")
    if not values["gpus"] and (bad := next((name for name in ("memory", "model", "capability", "share", "idle") if values[name]), "")):
        raise EngineError(f"--gpus 0: --{bad} is about GPUs", f"--gpus 0：不用 GPU 时 --{bad} 没有意义")
    if places and values["output"] and "%a" not in values["output"]:
        raise EngineError("--output with --array: all would write to one file; put %a (the index) into its name", "--output 与 --array：所有作业会写入同一个文件；请在文件名中加入 %a（序号）")
    spec = asked.checked(Spec(command=tuple(words), **values))
    if places is None:
        return [spec], secrets
    each = [replace(spec, index=place) for place in places]
    if spec.output and engine.name != "local":
        each = [replace(one, output=output_of(one)) for one in each]
    return each, secrets


def _number(text: str, option: str) -> int:
    from ongpu.queue.engines import EngineError

    body = text[1:] if text[:1] in "+-" else text
    if not (body.isascii() and body.isdigit() and len(body) < 8):
        raise EngineError(f"{option} {text:.40}: a whole number", f"{option} {text:.40}：应为整数")
    return int(text)


def _folder(asked: str | None, base: str = "", here: bool = True) -> str:
    """The working directory, whole. here: it is to be on this machine, not on the job's. Raises EngineError where it is not there."""
    from ongpu.queue.engines import EngineError

    try:
        folder = os.path.abspath(os.path.join(base, os.path.expanduser(asked))) if asked else _here()
    except FileNotFoundError:
        raise EngineError("this folder has been removed; go to another, or use --chdir", "当前目录已被删除；请换一个目录，或使用 --chdir") from None
    if here and not os.path.isdir(folder):
        raise EngineError(f"--chdir {asked}: no such folder", f"--chdir {asked}：没有这个目录")
    return folder


def _here() -> str:
    """This folder, by the name that the shell has for it (links kept), where that is true."""
    real, told = os.getcwd(), os.environ.get("PWD", "")
    try:
        return told if os.path.isabs(told) and os.path.samefile(told, real) else real
    except OSError:
        return real


def _output(text: str, folder: str) -> str:
    from ongpu.queue.engines import EngineError

    path = os.path.join(folder, os.path.expanduser(text)) if folder else text
    where = os.path.dirname(path)
    if folder and "%" not in where and "{" not in where and not os.path.isdir(where):
        raise EngineError(f"--output {text}: no folder {where}", f"--output {text}：没有目录 {where}")
    if folder and os.path.isdir(path):
        raise EngineError(f"--output {text}: a folder; write a file's name", f"--output {text}：是文件夹；请写文件名")
    return path


def _environ(asked: str, folder: str, local: bool) -> tuple[Mapping[str, str], list[str]]:
    """The variables for the job, and the names of those that are not written down unasked: they look like secrets."""
    from ongpu.queue.asked import without_secrets
    from ongpu.queue.engines import EngineError

    whole = dict(os.environ)
    bare = {name: whole[name] for name in BARE if name in whole} if local else {}
    if asked.lower() == "none":
        return bare, []
    kept: dict[str, str] = {}
    left: list[str] = []
    for part in asked.split(","):
        name, given, value = part.strip().partition("=")
        if given and name:
            kept[name] = value
        elif name.lower() == "all":
            kept |= whole
        elif name.lower() == "default":
            plain, left = without_secrets(whole)
            kept = plain | kept
        elif name in whole:
            kept[name] = whole[name]
        elif name.lower() != "none":
            raise EngineError(f"--export {name}: no such variable is set", f"--export {name}：没有设置这个变量")
    for name in OWN:
        if f"{name}=" not in asked:
            kept.pop(name, None)
    left = [name for name in left if name not in kept]
    kept = bare | kept
    if "PWD" in kept and folder:
        kept["PWD"] = folder
    return kept, left


def unasked(left: Sequence[str]) -> None:
    """Says which variables the job does not get, and how it does."""
    if left:
        shown = ", ".join(left[:SHOWN]) + (" ..." if len(left) > SHOWN else "")
        how = f"--export default,{','.join(left[:2])}{',...' if len(left) > 2 else ''}"
        tell(f"kept from the job, for they look like secrets: {shown}; to hand them on: {how}, or --export all",
             f"未传给作业，因为看似密钥：{shown}；如需传递：{how}，或 --export all")  # fmt: skip


# --- scripts


def _with_header(words: Sequence[str], options: argparse.Namespace, folder: str) -> tuple[list[str], argparse.Namespace]:
    """The command, and the options with those of its script's own lines where none were typed."""
    from ongpu.fronts.scripts import beginning
    from ongpu.queue.engines import EngineError
    from ongpu.queue.header import HeaderError, others
    from ongpu.queue.header import options as lines

    name = words[1] if len(words) > 1 and _INTERPRETER.fullmatch(os.path.basename(words[0])) else words[0]
    text = beginning(os.path.join(folder, name))
    if not text:
        return list(words), options
    try:
        more = lines(text)
        told = _parsed(options.asked, more) if more else None
    except HeaderError as error:
        raise EngineError(f"{name}: {error.english}", f"{name}：{error.chinese}") from None
    if mark := others(text):
        hint(f"{name}: its {mark} lines are not read; ongpu's begin with #ONGPU", f"{name}：不会读取其中的 {mark} 行；ongpu 的行以 #ONGPU 开头")
    if told is None:
        return list(words), options
    typed = {name: value for name, value in vars(options).items() if value is not None}
    return list(words), argparse.Namespace(**{**vars(told), **typed})


def _parsed(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """The options of a script's lines. Error: HeaderError."""
    from ongpu.fronts.parser import chinese
    from ongpu.queue.header import MARK, HeaderError

    def fail(message: str) -> NoReturn:
        raise HeaderError(f"{MARK}: {message}", f"{MARK}：{chinese(message)}")

    before = parser.error
    parser.error = fail  # type: ignore[method-assign]
    try:
        told, unknown = parser.parse_known_args(list(words))
    finally:
        parser.error = before  # type: ignore[method-assign]
    if unknown or told.command_line:
        fail(f"unrecognized arguments: {' '.join(unknown or told.command_line)}")
    if told.engine or told.wait or told.json or told.lang:
        fail("unrecognized arguments: --engine, --wait, --json, --lang")
    return told
