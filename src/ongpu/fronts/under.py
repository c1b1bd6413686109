"""A command of `ongpu run` under compute-sanitizer or a profiler: found and set up before, its report read and explained after."""

import contextlib
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ongpu.fronts.answer import say

if TYPE_CHECKING:
    from ongpu.hosts.under import Under
    from ongpu.model import Evidence, Report

EXPORT, CANNOT_RUN = 300.0, 126  # seconds for nsys to write its database; the exit code where the tool started nothing
MOST_LOG = 4000  # bytes of the tool's own words
FOLDERS = 1000


class Unfit(Exception):
    """The tool cannot be had: why, in English and Chinese."""

    def __init__(self, english: str, chinese: str) -> None:
        super().__init__(english)
        self.english, self.chinese = english, chinese


class Tool:
    """One kind of tool around one command. kind: a word of queue/tools.CHECKS, "nsys" or "torch"; program: "" for torch."""

    def __init__(self, kind: str, program: str, beside: str | None, lang: str) -> None:
        self.kind, self.program, self.lang = kind, program, lang
        self.base = os.path.dirname(os.path.abspath(beside)) if beside else os.getcwd()
        self.folder = ""
        self.under: Under | None = None
        self.origins: list[str] = []  # of the evidence that it left
        self.problems: list[str] = []

    @property
    def name(self) -> str:
        """As a reader knows it."""
        names = {"nsys": "Nsight Systems", "torch": "torch.profiler"}
        return names.get(self.kind, f"compute-sanitizer ({self.kind})")

    def prepare(self, argv: Sequence[str], environ: dict[str, str]) -> list[str]:
        """The command line that is started, and what its environment gets besides. Unfit where no file can be written."""
        from ongpu.queue import tools

        self.folder = _folder(self.base, "ongpu-sanitize" if self.kind in tools.CHECKS else "ongpu-profile")
        if self.kind == "torch":
            from ongpu import probes

            hook = os.path.join(os.path.dirname(os.path.abspath(probes.__file__)), "profiling")
            environ["PYTHONPATH"] = os.pathsep.join(filter(None, [hook, environ.get("PYTHONPATH", "")]))
            environ["ONGPU_PROFILE"] = self.folder
            return list(argv)
        from ongpu.hosts.under import Under

        environ.update(tools.environ(self.kind, environ))
        self.under = Under(os.path.join(self.folder, "ended.txt"), os.path.join(self.folder, "tool.txt"))
        make = tools.nsys(self.program, self.folder) if self.kind == "nsys" else tools.sanitizer(self.program, self.kind, self.folder)
        return [*make, *self.under.argv(list(argv))]

    def words(self) -> str:
        """Before it starts: what it costs."""
        cost = {
            "nsys": ("slows launches; records at most 5 minutes", "会拖慢 kernel 启动；最多记录 5 分钟"),
            "torch": ("records 5 steps after the first 5; these are slower", "跳过前 5 步后记录 5 步；这几步会变慢"),
        }.get(self.kind, ("every kernel runs many times slower", "每个 kernel 都会慢很多倍"))
        return say(f"under {self.name}: {cost[0]}", f"在 {self.name} 下运行：{cost[1]}")

    def started(self) -> bool:
        """Whether the command was started at all."""
        return self.under is None or self.under.pid() is not None

    def evidence(self) -> "list[Evidence]":
        """What it wrote, as evidence."""
        found: list[Evidence] = []
        for path in self._files():
            with contextlib.suppress(OSError):
                found += _read(path)
        self.origins = [item.origin for item in found if item.text]
        self.problems = [item.problem for item in found if item.problem]
        return found

    def _files(self) -> list[Path]:
        from ongpu.queue import tools

        folder = Path(self.folder)
        if self.kind == "torch":
            return sorted(folder.glob("trace*.json.gz"))[:64]
        if self.kind in tools.CHECKS:
            return [path for path in (folder / tools.REPORT,) if path.is_file() and path.stat().st_size]
        if (folder / f"{tools.TRACE}.nsys-rep").is_file():
            from ongpu.hosts.processes import bounded

            text, problem = bounded(tools.export(self.program, self.folder), EXPORT, os.environ)
            if problem:
                with contextlib.suppress(OSError), (folder / "tool.txt").open("a") as log:
                    log.write(f"export: {problem}: {text[-500:]}\n")
        return [path for path in (folder / f"{tools.TRACE}.sqlite",) if path.is_file()]

    def explain(self, report: "Report", shown: Collection[str], quiet: bool) -> None:
        """What it found, on standard error; where there is nothing to tell, why. shown: slugs that were told in full already. quiet:
        not that nothing is wrong."""
        from ongpu.fronts.answer import coloured, columns
        from ongpu.queue import tools
        from ongpu.report import as_text

        found = tools.told(report, self.origins)
        left = tuple(finding for finding in found if finding.slug not in shown)
        if left:
            say_it = say(f"{self.name} found", f"{self.name} 的结果")
            print(f"ongpu: {say_it} ({self.folder}):", file=sys.stderr)
            text = as_text.render(tools.only(report, left), self.lang, width=columns(), colour=coloured(sys.stderr), links=False)
            print(f"\n{text}", file=sys.stderr)
            return
        if quiet and not found and self.started() and tools.clean(report):
            return
        said = say(f"the report of {self.name}", f"{self.name} 的报告") if found else self._nothing(report)
        with contextlib.suppress(OSError):
            os.rmdir(self.folder)  # nothing was written into it
        print(f"ongpu: {said}" + (f" ({self.folder})" if os.path.isdir(self.folder) else ""), file=sys.stderr)

    def _nothing(self, report: "Report") -> str:
        from ongpu.queue import tools

        if not self.started():
            last = self._last("tool.txt") or self._last(tools.REPORT)
            return say(f"{self.name} did not start the command: {last}", f"{self.name} 没有启动命令：{last}")
        if self.kind in tools.CHECKS:
            if tools.UNUSED in _start(Path(self.folder, tools.REPORT)):
                return say("the command made no CUDA call: nothing was checked", "命令没有调用 CUDA：什么也没检查")
            if tools.clean(report):
                return say(f"{self.name} found nothing wrong", f"{self.name} 未发现问题")
            last = self._last(tools.REPORT) or self._last("tool.txt") or say("its report is empty", "报告为空")
            return say(f"{self.name} told no result: {last}", f"{self.name} 没有给出结果：{last}")
        if tools.idle(report):
            return say("the profile shows no activity of a GPU", "性能记录中没有 GPU 活动")
        last = self.problems[0] if self.problems else self._last("notes.txt" if self.kind == "torch" else "tool.txt")
        if self.kind != "torch" or last:
            return say(f"{self.name} recorded nothing: {last}", f"{self.name} 没有记录：{last}")
        english, chinese = tools.missing("nsys")
        return say(f"no PyTorch was used: nothing was recorded. {english}", f"没有用到 PyTorch，没有记录。{chinese}")

    def _last(self, name: str) -> str:
        """The last line of one of its files."""
        lines = [line.strip("= \t") for line in _start(Path(self.folder, name)).replace("\r", "\n").splitlines()]
        return next((line[:200] for line in reversed(lines) if line and "COMPUTE-SANITIZER" not in line), "")


def spelt(options: Any) -> None:
    """Unfit where the words are wrong; before the command is looked for, as one of its words may have been taken for a tool's."""
    if options.sanitize is None and options.profile is None:
        return
    from ongpu.queue import tools

    for option, word, known in (("--sanitize", options.sanitize, tools.CHECKS), ("--profile", options.profile, tools.PROFILERS)):
        if word is not None and word not in known:
            more = ", ".join(known)
            raise Unfit(f"{option} {word}: one of {more}; the command goes behind --", f"{option} {word}：可用 {more}；命令写在 -- 之后")
    if options.sanitize and options.profile:
        raise Unfit("--sanitize and --profile: one at a time", "--sanitize 与 --profile 只能用一个")


def chosen(options: Any, argv: Sequence[str], environ: Mapping[str, str], lang: str) -> Tool | None:
    """The tool that is asked for; None: none. Unfit where it is not there."""
    if options.sanitize is None and options.profile is None:
        return None
    from ongpu.hosts import tools as programs
    from ongpu.hosts.processes import which
    from ongpu.queue import tools

    python = which(argv[0], environ.get("PATH"))
    root = options.root
    if options.sanitize:
        if program := programs.find(programs.SANITIZER, environ, python, root):
            return Tool(options.sanitize, program, options.report, lang)
        raise Unfit(*tools.missing(programs.SANITIZER))
    program = programs.find(programs.NSYS, environ, python, root) if options.profile != "torch" else None
    if program:
        return Tool("nsys", program, options.report, lang)
    if options.profile == "nsys":
        english, chinese = tools.missing(programs.NSYS)
        raise Unfit(f"{english}; or --profile torch", f"{chinese}；或用 --profile torch")
    return Tool("torch", "", options.report, lang)


def _folder(base: str, name: str) -> str:
    """A new folder; nothing that is there is touched. Unfit where none can be made."""
    for number in range(1, FOLDERS):
        place = os.path.join(base, name if number == 1 else f"{name}-{number}")
        try:
            os.mkdir(place)
            return place
        except FileExistsError:
            continue
        except OSError as error:
            raise Unfit(f"{place}: {error.strerror}", f"{place}：{error.strerror}") from None
    raise Unfit(f"{base}: too many folders {name}-N", f"{base}：{name}-N 文件夹过多")


def _read(path: Path) -> "list[Evidence]":
    from ongpu.hosts import pasted

    try:
        return pasted.read_file(path, pasted.Reader(say))
    except pasted.Unreadable as error:
        from ongpu.model import Evidence

        return [Evidence("unread", "", path.name, None, say(error.english, error.chinese))]


def _start(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MOST_LOG).decode("utf-8", "replace")
    except OSError:
        return ""
