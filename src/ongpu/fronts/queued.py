"""What the commands of the queue have in common: which engine, its errors in one line, ids, what a terminal may be shown."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ongpu.fronts.answer import complain, say

if TYPE_CHECKING:
    from ongpu.queue.config import Config
    from ongpu.queue.engines import Engine
    from ongpu.queue.job import Told

ENGINES = ("local", "slurm", "ray", "kubernetes")  # queue/engines NAMES, not loaded by --help
NONE_SUCH = 1  # no such job
MOST_EACH = 1000  # jobs of an array that are named by their indices, where the engine is asked for each
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/\[\],+-]{0,252}")


def add_engine(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """--engine."""
    parser.add_argument("--engine", choices=ENGINES, metavar="NAME", help=say(
        "local, slurm, ray, kubernetes (default: the configuration's, else local)", "local、slurm、ray、kubernetes（默认按配置，否则为 local）"))  # fmt: skip


def add_ids(parser: argparse.ArgumentParser, many: str, text: tuple[str, str], states: Sequence[str] = ()) -> None:
    """The jobs' ids; a shell can complete those that are in one of the states (none named: in any)."""
    ids = parser.add_argument("ids", nargs=many, metavar=say("ID", "编号"), help=say(*text))
    ids.completer = lambda prefix, **more: _complete(prefix, states)  # type: ignore[attr-defined]  # argcomplete's own way


def _complete(prefix: str, states: Sequence[str]) -> list[str]:
    """The ids of jobs that begin so. Nothing where the queue does not answer: a shell is waiting."""
    try:
        from ongpu.queue.job import Want

        _, engine = opened(argparse.Namespace(engine=None))
        return [job.id for job in engine.jobs(Want(states=tuple(states), most=200)).jobs if job.id.startswith(prefix)]
    except Exception:  # whatever it is: an error has no place in a line that is being typed
        return []


def opened(options: argparse.Namespace) -> "tuple[Config, Engine]":
    """The configuration, and the engine that was asked for there or on the command line. Raises EngineError."""
    from ongpu.queue.config import load
    from ongpu.queue.engines import engine

    config = load()
    return config, engine(options.engine or config.engine, config)


def local_only(options: argparse.Namespace, what: str) -> None:
    """Raises EngineError where the engine is another one: it has its own way for that."""
    from ongpu.queue.config import load
    from ongpu.queue.engines import EngineError

    name = options.engine or load().engine
    if name != "local":
        raise EngineError(f"queue {what}: of the local queue only; {name} has its own way", f"queue {what}：仅适用于本机队列；{name} 有自己的方式")


def guarded(act: "Callable[[argparse.Namespace], int]") -> "Callable[[argparse.Namespace], int]":
    """The same; what an engine cannot do is one line, and its exit code."""

    def run(options: argparse.Namespace) -> int:
        if sys.platform == "win32":
            return complain("the queue does not run on Windows yet", "队列暂不支持 Windows")
        from ongpu.queue.engines import EngineError

        try:
            return act(options)
        except EngineError as error:
            tell(error.english, error.chinese)
            return error.code

    return run


def known(engine: "Engine", ids: Sequence[str]) -> "list[Told]":
    """The jobs of these ids, an array's id meaning all of its jobs. Raises EngineError (code 1) where there is no such job."""
    from ongpu.queue.engines import EngineError
    from ongpu.queue.job import Want

    asked = tuple(dict.fromkeys(one for text in ids for part in _parts(text) for one in _each(part, engine.name)))
    if bad := [one for one in asked if not _ID.fullmatch(one)]:
        raise EngineError(f"{bad[0]!r:.80}: not a job's id", f"{bad[0]!r:.80}：不是作业编号")
    jobs = list(engine.jobs(Want(ids=asked, most=None)).jobs)
    there = {job.id for job in jobs} | {job.array for job in jobs}
    missing = [one for one in asked if one not in there and not engine.jobs(Want(ids=(one,), most=1)).jobs]  # "12-15", "17[3]"
    if missing:
        raise EngineError(f"no such job: {', '.join(missing)}", f"没有这个作业：{'、'.join(missing)}", NONE_SUCH)
    return jobs


def _parts(text: str) -> list[str]:
    """ "12", "17[0,2-3]" of "12,17[0,2-3]": a comma within brackets does not part them."""
    found, depth = [""], 0
    for char in text:
        depth += (char == "[") - (char == "]")
        if char == "," and depth <= 0:
            found.append("")
        else:
            found[-1] += char
    return [part for part in found if part]


def _each(text: str, engine: str) -> list[str]:
    """The jobs of "17[0,2-3]" one by one, for an engine that does not read that by itself. Raises EngineError where they are too many."""
    from ongpu.queue.engines import EngineError

    number, bracket, places = text.partition("[")
    if engine == "local" or not bracket or not places.endswith("]") or places[:-1].isdigit():
        return [text]
    from ongpu.queue.asked import array

    indices = array(places[:-1], text)[0]
    if len(indices) > MOST_EACH:
        raise EngineError(f"{text:.80}: more than {MOST_EACH} jobs at once", f"{text:.80}：一次最多 {MOST_EACH} 个作业")
    return [f"{number.removesuffix('_')}[{index}]" for index in indices]


def tell(english: str, chinese: str) -> None:
    """A word on standard error: one line, on a terminal as many as it takes to break between words."""
    text = f"ongpu: {say(english, chinese)}"
    if sys.stderr.isatty():
        from ongpu.fronts.answer import terminal
        from ongpu.fronts.page import folded

        text = "\n".join(folded(text, max(20, terminal())))
    print(text, file=sys.stderr, flush=True)


def hint(english: str, chinese: str) -> None:
    """The same, only where a person reads it."""
    if sys.stderr.isatty():
        tell(english, chinese)


def me() -> str:
    """The user's name as engines tell it."""
    import os
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
