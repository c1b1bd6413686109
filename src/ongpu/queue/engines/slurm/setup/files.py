"""The files of a configuration, read with what they name: their modes, their scripts, the Slurm that runs by them."""

import os
import shlex
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from ongpu.hosts.processes import which
from ongpu.lazy import dataclass, field
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.slurm import nodes as cluster
from ongpu.queue.engines.slurm.nodes import Node
from ongpu.queue.engines.slurm.rows import hosts
from ongpu.queue.engines.slurm.setup import conf as words
from ongpu.queue.engines.slurm.setup.conf import Conf

PLACES = ("/etc/slurm", "/etc/slurm-llnl", "/usr/local/etc/slurm", "/opt/slurm/etc")
KEY = "/etc/munge/munge.key"
LOOKED = "/usr/local/bin:/usr/bin:/bin:/opt/slurm/bin"  # the PATH of our scripts (queue/hooks)
SCRIPTS = ("Prolog", "Epilog", "TaskProlog", "TaskEpilog", "HealthCheckProgram", "PrologSlurmctld", "EpilogSlurmctld")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What is looked at. programs: the texts of the scripts that it names, by path, None: not there or not to be run; owners: those of
    them that others than root may change; lost: which of them do not find the ongpu that they run, and its name; modes: of files, in octal
    words, where they matter. running: `scontrol show config`, and nodes, where Slurm runs here. ours: whether it
    is this machine's configuration, so that the machine can be compared."""

    slurm: Conf = Conf(there=False)
    gres: Conf = Conf(there=False)
    cgroup: Conf = Conf(there=False)
    programs: Mapping[str, str | None] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    running: Conf | None = None
    nodes: Sequence[Node] = ()
    ours: bool = True


def gather(asked: Sequence[str], host: str, root: str = "/", environ: Mapping[str, str] = os.environ) -> Files:
    """Of the files or the folder that are named, else of this machine's. Those beside slurm.conf are read with it. Raises EngineError
    where one that is named cannot be read. host: this machine's name: files that are named are its own where they name it."""
    places = _places(asked, root, environ)
    texts: dict[str, str] = {}
    modes: dict[str, str] = {}
    for name, place in places.items():
        text = _read(place)
        if text is not None:
            texts[name] = text
            modes[str(place)] = f"{stat.S_IMODE(os.stat(place).st_mode):o}"
        elif asked and str(place) in asked:
            raise EngineError(f"{place}: cannot be read", f"{place}：无法读取")
    read = {name: _conf(name, texts.get(name), places.get(name)) for name in words.NAMES}
    slurm = read["slurm.conf"]
    ours = not asked or any(host in hosts(line.pairs["nodename"]) for line in slurm.all("NodeName"))
    if root == "/" and not asked:
        modes |= _mode(KEY)
    programs, owners = _programs(slurm, root, places["slurm.conf"].parent if asked and "slurm.conf" in places else None)
    lost = _lost(programs) if root == "/" and ours else {}
    running, nodes = _running() if root == "/" and ours else (None, ())
    used = running.get("SLURM_CONF") if running else ""
    if asked and os.path.realpath(used) != os.path.realpath(places.get("slurm.conf", "")):
        running, nodes = None, ()  # another Slurm's
    return Files(slurm=slurm, gres=read["gres.conf"], cgroup=read["cgroup.conf"], programs=programs, owners=owners, lost=lost,
                 modes=modes, ours=ours, running=running, nodes=nodes)  # fmt: skip


def _places(asked: Sequence[str], root: str, environ: Mapping[str, str]) -> dict[str, Path]:
    """Each file's name -> where it lies."""
    found: dict[str, Path] = {}
    for text in asked:
        place = Path(text)
        if place.is_dir():
            found |= {name: place / name for name in words.NAMES}
        elif not place.exists():
            raise EngineError(f"{text}: no such file", f"{text}：没有这个文件")
        else:
            kind = next((name for name in words.NAMES if place.name.endswith(name)), "") or _kind(_read(place) or "")
            found[kind] = place
            for name in words.NAMES:
                beside = place.parent / name
                if name not in found and beside.exists():
                    found[name] = beside
    if asked:
        return found
    told = environ.get("SLURM_CONF") if root == "/" else None
    folders = [str(Path(told).parent)] if told else [place for place in PLACES if Path(root, place.lstrip("/"), "slurm.conf").exists()][:1]
    folder = Path(root, (folders or [PLACES[0]])[0].lstrip("/"))
    return {name: Path(told) if told and name == "slurm.conf" else folder / name for name in words.NAMES}


def _kind(text: str) -> str:
    """Which of them a file of another name is."""
    low = text.lower()
    if "nodename=" in low and "partitionname=" in low:
        return "slurm.conf"
    return "cgroup.conf" if "constrain" in low else "gres.conf" if "name=gpu" in low else "slurm.conf"


def _read(place: Path) -> str | None:
    try:
        with open(place, "rb") as file:
            return file.read(words.MOST).decode("utf-8", "replace")
    except OSError:
        return None


def _conf(name: str, text: str | None, place: Path | None) -> Conf:
    if text is None:
        return Conf(name=name, there=False)
    folder = place.parent if place else Path("/etc/slurm")
    more = {one: inner for one in words.includes(text) if (inner := _read(folder / one)) is not None}
    return words.read(text, name, more)


def _programs(conf: Conf, root: str, beside: Path | None) -> tuple[dict[str, str | None], dict[str, str]]:
    """The texts of the scripts that it names, and which of them (or what they run) others than root may change. beside: the folder of
    files that are not in place yet, with their scripts."""
    from ongpu.queue.engines.slurm.setup.here import unsafe

    texts: dict[str, str | None] = {}
    owners: dict[str, str] = {}
    for name in SCRIPTS:
        path = conf.get(name).strip('"')
        if not path.startswith("/") or path in texts:
            continue
        place = Path(root, path.lstrip("/"))
        if beside and not place.exists() and (beside / place.name).exists():
            place = beside / place.name
        texts[path] = (_read(place) or "") if os.access(place, os.X_OK) and place.is_file() else None
        text = texts[path]
        if root == "/" and text is not None:
            runs = which(program, LOOKED) if (program := _runs(text)) else None
            bad = next((found for one in (str(place), *([runs] if runs else [])) if (found := unsafe(one))), "")
            if bad:
                owners[path] = bad
    return texts, owners


def _runs(text: str) -> str:
    """The program that our scripts run: of "ONGPU=/opt/ongpu/bin/ongpu", or "ONGPU=${ONGPU:-ongpu}"; "" for those of others."""
    line = next((line for line in text.splitlines()[:60] if line.startswith("ONGPU=")), "")
    try:
        words = shlex.split(line.removeprefix("ONGPU="))
    except ValueError:
        return ""
    return words[0].removeprefix("${ONGPU:-").removesuffix("}") if words else ""


def _lost(programs: Mapping[str, str | None]) -> dict[str, str]:
    """Which of the scripts do not find theirs."""
    found = {path: _runs(text) for path, text in programs.items() if text}
    return {path: program for path, program in found.items() if program and which(program, LOOKED) is None}


def _mode(path: str) -> dict[str, str]:
    try:
        return {path: f"{stat.S_IMODE(os.stat(path).st_mode):o}"}
    except OSError:
        return {}


def _running() -> tuple[Conf | None, tuple[Node, ...]]:
    """What slurmctld goes by, where it answers soon."""
    from ongpu.queue.engines.slurm.ask import ask

    try:
        config = ask(["scontrol", "show", "config"], limit=5.0)
        shown = ask(["scontrol", "show", "node", "-d"], limit=5.0) if config.code == 0 else None
    except EngineError:
        return None, ()
    if config.code or shown is None:
        return None, ()
    return words.running(config.out), tuple(cluster.read(shown.out))
