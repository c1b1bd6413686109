"""`ongpu run`: a command on healthy, free GPUs, unchanged; what it used, and why it died."""

import argparse
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ongpu.fronts.answer import add_language, coloured, complain, language, say

if TYPE_CHECKING:
    from ongpu.hosts.leases import Lease
    from ongpu.model import Evidence, Report
    from ongpu.queue.choice import Card, Refused
    from ongpu.queue.run import Ending, Used

UNFIT, LATER = 69, 75  # sysexits.h: EX_UNAVAILABLE (what there is is not fit), EX_TEMPFAIL (all is taken; another time)
PATIENCE = 10.0  # seconds for a driver that does not answer
LOOK_AGAIN, LEASES_EVERY = 10.0, 0.5  # seconds between two looks of one that waits: at the GPUs; at the leases alone, which costs nothing
RACES = 5  # times that somebody else may take a GPU between our look and our hand
GPUS_MOST = 1024
_SIZE = re.compile(r"(?P<n>\d{1,9}(?:\.\d{1,3})?)\s?(?P<unit>[KMGT]?)(?P<i>i?)B?", re.IGNORECASE)
_PYTHON = re.compile(r"python[0-9.]{0,8}")
UNITS = {"": 1, "k": 1, "m": 2, "g": 3, "t": 4}


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--gpus", default="1", metavar="N", help=say("how many GPUs (default: 1; 0: none)", "需要几块 GPU（默认 1；0 表示不用）"))
    parser.add_argument("--memory", metavar="SIZE", help=say("free memory that each must have: 20GiB", "每块 GPU 至少要有的空闲显存：20GiB"))
    parser.add_argument("--wait", action="store_true", help=say("wait until they are free", "等到有空闲 GPU 为止"))
    parser.add_argument("--retry-on-gpu-fault", nargs="?", const="1", default="0", metavar="N", help=say(
        "start anew on other GPUs where a GPU was at fault, at most N times (default: once)", "因 GPU 故障而失败时换 GPU 重试，最多 N 次（默认一次）"))  # fmt: skip
    parser.add_argument("--report", metavar="FILE", help=say("keep what it used and the diagnosis (.json or .html)", "把用量与诊断存成文件（.json 或 .html）"))
    parser.add_argument("--no-check", action="store_true", help=say("do not refuse GPUs that are not fit", "不检查 GPU 是否可用"))
    parser.add_argument("--no-tee", action="store_true", help=say(
        "leave its output alone; its last words are not judged then", "不经手它的输出；失败时也就不分析输出"))  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help=say("say nothing where all went well", "一切正常时不输出任何信息"))
    parser.add_argument("--no-kernel-log", action="store_true", help=argparse.SUPPRESS)  # tests: another machine's log is in there
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)  # another file system, for what is asked of the machine: tests
    add_language(parser)
    parser.add_argument("command_line", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help=say("the command, unchanged", "要运行的命令，原样执行"))
    parser.usage = say("ongpu run [options] -- COMMAND [ARGUMENT ...]", "ongpu run [选项] -- 命令 [参数 ...]")
    parser.set_defaults(run=run)


class Bad(Exception):
    """Bad usage, or no GPU: the words in both languages, and the exit code."""

    def __init__(self, english: str, chinese: str, code: int = 2) -> None:
        super().__init__(english)
        self.english, self.chinese, self.code = english, chinese, code


def run(options: argparse.Namespace) -> int:
    """Choose, lease, run, watch, tell. The command's exit code, or 2, 69, 75 where it was not started."""
    if sys.platform == "win32":
        return complain("run: not on Windows yet", "run：暂不支持 Windows")
    try:
        return _Run(options).go()
    except Bad as error:
        complain(error.english, error.chinese)
        return error.code


class _Run:
    """One `ongpu run`."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.lang = options, options.lang or language()
        self.zh = self.lang == "zh"
        self.argv = _command(options.command_line)
        self.count = _count(options.gpus, "--gpus", GPUS_MOST)
        self.retries = _count(options.retry_on_gpu_fault, "--retry-on-gpu-fault", 100)
        self.memory = _size(options.memory) if options.memory else None
        if options.report and not options.report.endswith((".json", ".html")):
            raise Bad(f"--report {options.report}: .json or .html", f"--report {options.report}：只支持 .json 或 .html")
        self.avoid: set[str] = set()
        self.warned = False
        self.uuids: list[str] = []  # of all GPUs

    def go(self) -> int:
        """The command, and again elsewhere where that is asked for."""
        while True:
            cards, lease = ([], None) if self.count == 0 else self._take()
            try:
                code, ending = self._once(cards, lease)
            finally:
                if lease:
                    lease.close()
            if not ending.retry or self.retries == 0:
                return code
            self.retries -= 1
            self.avoid |= set(ending.gpus or (card.uuid for card in cards))
            self.tell(say("a GPU was at fault, not the program: started anew elsewhere", "故障在 GPU 而不在程序：换 GPU 重新启动"))

    def tell(self, words: str) -> None:
        """One line of ours, on standard error."""
        print(f"ongpu: {words}", file=sys.stderr, flush=True)

    # --- which GPUs

    def _take(self) -> "tuple[list[Card], Lease | None]":
        from ongpu.hosts import leases

        told, races = False, 0
        place = leases.folder()
        while True:
            chosen = self._choose(place)
            if isinstance(chosen, list):
                try:
                    got = leases.take(place, [card.uuid for card in chosen], leases.words(self.argv, self.memory))
                except leases.Unusable as error:
                    self.tell(say(f"no lease: {error.english}; others cannot see that the GPUs are taken", f"无法登记租约：{error.chinese}；他人看不到这些 GPU 已被占用"))
                    return chosen, None
                if isinstance(got, leases.Lease):
                    return chosen, got
                races += 1
                if races < RACES:
                    continue
                chosen = Bad(f"GPU {got.gpu}: taken a moment ago", f"GPU {got.gpu}：刚刚被他人占用", LATER)
            if chosen.code != LATER or not self.options.wait:
                raise chosen
            if not told:
                self.tell(say(f"waiting: {chosen.english}", f"等待中：{chosen.chinese}"))
                told = True
            races = 0
            self._wait(place)

    def _wait(self, place: Path) -> None:
        """Until a lease ended or began, or it is time to look at the GPUs again."""
        from ongpu.hosts import leases

        def seen() -> set[str]:
            with contextlib.suppress(leases.Unusable):
                return set(leases.held(place, self.uuids))
            return set()

        before, end = seen(), time.monotonic() + LOOK_AGAIN
        while time.monotonic() < end and seen() == before:
            time.sleep(LEASES_EVERY)

    def _choose(self, place: Path) -> "list[Card] | Bad":
        """The GPUs, or why there are none now; raises Bad where there never will be."""
        from ongpu.hosts import leases
        from ongpu.queue import gate, machine
        from ongpu.queue.choice import Chosen, Request, choose

        report = machine.ask(self.options.root, patience=PATIENCE)
        policy = None if self.options.no_check else gate.DEFAULT
        seen = gate.cards(report)
        if not seen:
            reasons = gate.decide(report, gate.Asked()).reasons
            why = reasons[0] if reasons else gate.Reason("unknown", ("no GPU answers", "没有 GPU 应答"))
            more = say("--gpus 0 runs it without", "--gpus 0 可不用 GPU 运行")
            raise Bad(f"{why.slug}: {why.text('en')}; {more}", f"{why.slug}：{why.text('zh')}；{more}", UNFIT)
        self.uuids = [card.uuid for card in seen if card.uuid]
        try:
            held = leases.held(place, self.uuids)
        except leases.Unusable:
            held = {}
        cards = machine.cards_of(report, held, policy, root=self.options.root)
        want = gate.asked({name: value for name, value in os.environ.items() if name == "CUDA_VISIBLE_DEVICES"})
        only = None
        if want.names is not None:
            only = frozenset(found.uuid for name in want.names if (found := gate.named(seen, name)) and found.uuid)
        self._warn(report)
        answer = choose(cards, Request(self.count, self.memory, frozenset(self.avoid), only))
        if isinstance(answer, Chosen):
            return list(answer.cards)
        bad = self._refused(answer, cards)
        if bad.code != LATER:
            raise bad
        return bad

    def _warn(self, report: Any) -> None:
        """Once: what keeps the command's packages off the GPUs, where it is a Python."""
        from ongpu.hosts.processes import which
        from ongpu.queue.machine import unable

        python = which(self.argv[0], os.environ.get("PATH"))
        if self.warned or self.options.no_check or python is None or not _PYTHON.fullmatch(os.path.basename(python)):
            return
        self.warned = True
        for finding in unable(report, python):
            words = finding.text(self.lang).title
            self.tell(f"{finding.slug}: {words}")

    def _refused(self, answer: "Refused", cards: "Sequence[Card]") -> Bad:
        words = {
            "partitioned": ("partitioned (MIG): its slices are not handed out yet", "已分区（MIG）：暂不分配其切片"),
            "hidden": ("hidden by CUDA_VISIBLE_DEVICES", "被 CUDA_VISIBLE_DEVICES 隐藏"),
            "avoided": ("was at fault before", "此前出过故障"), "unfit": ("not fit: {}", "不可用：{}"), "leased": ("leased by {}", "已被租用：{}"),
            "small": ("has {} MiB in all", "总共只有 {} MiB"), "busy": ("in use: {}", "使用中：{}"), "full": ("only {} MiB free", "仅空闲 {} MiB"),
        }  # fmt: skip
        each = [(index, *(text.format(more) for text in words[word])) for index, word, more in answer.each]
        english = "; ".join(f"GPU {index}: {text}" for index, text, _ in each)
        chinese = "；".join(f"GPU {index}：{text}" for index, _, text in each)
        size = f" with {self.memory} MiB" if self.memory else ""
        asked, wanted = f"--gpus {self.count}{size}", f"--gpus {self.count}" + (f"（每块 {self.memory} MiB）" if self.memory else "")
        if answer.never:
            largest = f", the largest has {answer.largest} MiB" if answer.largest and self.memory else ""
            most = f"，最大的有 {answer.largest} MiB" if answer.largest and self.memory else ""
            fits = say(f"at most {answer.fits} would fit", f"最多可用 {answer.fits} 块") if answer.fits else say("none would fit", "没有一块满足")
            unfit = all(word in ("unfit", "avoided") for _, word, _ in answer.each) and bool(answer.each)
            here = len(cards)
            return Bad(
                f"{asked}: this machine has {here}{largest}; {fits}" + (f" ({english})" if english else ""),
                f"{wanted}：本机有 {here} 块{most}；{fits}" + (f"（{chinese}）" if chinese else ""), UNFIT if unfit else 2,
            )  # fmt: skip
        return Bad(f"{asked}: not free now ({english}); --wait waits", f"{wanted}：现在没有空闲（{chinese}）；--wait 可等待", LATER)

    # --- the command

    def _once(self, cards: "Sequence[Card]", lease: "Lease | None") -> "tuple[int, Ending]":
        from ongpu.fronts.running import Watching
        from ongpu.hosts import oom_kills
        from ongpu.hosts.running import Running
        from ongpu.queue.run import Used

        environ = dict(os.environ)
        environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        environ["CUDA_VISIBLE_DEVICES"] = ",".join(card.uuid for card in cards)
        if cards and not self.options.quiet:
            names = ", ".join(f"GPU {card.index} ({card.name})" for card in cards)
            self.tell(say(f"on {names}", f"使用 {names}"))
        start, begin, kills = time.time(), time.monotonic(), oom_kills.count()
        running = Running(self.argv, environ, list(lease.files.values()) if lease else (), tee=not self.options.no_tee)
        used = [Used(card.index, card.uuid, card.name, card.total) for card in cards]
        watching = Watching(used, running.pid, start, self.tell, self.options.no_kernel_log) if cards else None
        while running.status is None:
            running.step(1.0)
        seconds = time.monotonic() - begin
        if watching:
            watching.stop(hasty=running.status == 0)
        output = running.output()
        running.close()
        code = running.status
        from ongpu.queue import run as ends

        words = [] if code == 0 else _words(output, running.signal, oom_kills.since(kills), bool(kills))
        report = _judged(words, watching, " ".join(self.argv)[:200])
        ending = ends.ending(code, running.signal, running.from_user, report, used)
        self._summary(ending, used, seconds, code, running.signal, report, output)
        if self.options.report:
            self._keep(ending, used, seconds, code, report, output)
        return code, ending

    def _summary(
        self, ending: "Ending", used: "Sequence[Used]", seconds: float, code: int, number: int | None, report: Any, output: str
    ) -> None:
        from ongpu.queue import run as ends
        from ongpu.report.verdicts import verdicts

        if ending.kind == ends.OK and self.options.quiet:
            return
        if ending.kind == ends.OK or used:
            self.tell(say(f"ran {ends.duration(seconds, False)}", f"运行 {ends.duration(seconds, True)}"))
        why = verdicts(report)
        for gpu in used:
            print(f"  {ends.used_line(gpu, self.zh)}", file=sys.stderr)
            if gpu.index in why:
                print(f"    {why[gpu.index].slug}: {why[gpu.index].text(self.lang).title}", file=sys.stderr)
        if ending.kind != ends.OK:
            self._post_mortem(ending, used, code, number, report, output)

    def _post_mortem(self, ending: "Ending", used: "Sequence[Used]", code: int, number: int | None, report: Any, output: str) -> None:
        from ongpu.fronts.answer import columns
        from ongpu.lazy import replace
        from ongpu.queue import run as ends
        from ongpu.report import as_text

        how = say(f"exit code {code}", f"退出码 {code}") if number is None else say(f"signal {number}", f"信号 {number}")
        words = {
            ends.GPU_FAULT: ("a GPU is at fault, not the program: another GPU may do", "故障在 GPU，不在程序：换一块 GPU 可能就好"),
            ends.OUT_OF_MEMORY: ("the GPU's memory ran out: the same again will end the same", "显存不足：原样重跑结果相同"),
            ends.HOST_MEMORY: ("the host's memory (RAM) ran out, not the GPU's", "主机内存（RAM）用尽，而不是显存"),
            ends.PROGRAM: ("the program's own fault: another GPU would not help", "程序自身出错：换 GPU 没有用"),
            ends.SIGNAL: ("ended by a signal; who sent it is not known", "被信号终止；发送者未知"),
            ends.STOPPED: ("stopped on request", "按要求停止"),
        }  # fmt: skip
        self.tell(f"{how}: {say(*words[ending.kind])}" if not self.zh else f"{how}：{say(*words[ending.kind])}")
        if ending.kind == ends.OUT_OF_MEMORY and (fits := ends.what_fits(report, used)):
            print(f"  {fits[self.zh]}", file=sys.stderr)
        if ending.kind == ends.GPU_FAULT and ending.gpus:
            sick = ", ".join(f"GPU {gpu.index} ({gpu.uuid})" for gpu in used if gpu.uuid in ending.gpus)
            print("  " + say(f"take it out of service until it has been tested: {sick}", f"检测通过前请停用：{sick}"), file=sys.stderr)
        if ending.findings and (places := [(n, gpu.index) for n, gpu in enumerate(used) if n != gpu.index]):
            pairs = ", ".join(f"{n} = {index}" for n, index in places)
            print("  " + say(f"the program's numbers of GPUs, and this machine's: {pairs}", f"程序中的 GPU 编号与本机编号：{pairs}"), file=sys.stderr)
        if ending.findings:
            shown = replace(report, findings=ending.findings, hidden=(), unknown=(), unread=())
            text = as_text.render(shown, self.lang, width=columns(), colour=coloured(sys.stderr), links=False)
            print(f"\n{text}", file=sys.stderr)
        elif ending.kind != ends.STOPPED and (last := ends.last_words(report, output)):
            print("  " + say(f"its last words: {last}", f"最后的输出：{last}"), file=sys.stderr)

    def _keep(self, ending: "Ending", used: "Sequence[Used]", seconds: float, code: int, report: Any, output: str) -> None:
        from ongpu.fronts.running import as_html, as_json

        told = {
            "schema": 1, "command": self.argv, "code": code, "ending": ending.kind, "gpus_at_fault": list(ending.gpus), "seconds": round(seconds, 2),
        }  # fmt: skip
        make = as_json if self.options.report.endswith(".json") else as_html
        try:
            Path(self.options.report).write_text(make(told, used, report, self.lang, output), "utf-8")
        except OSError as error:  # the command's exit code counts more
            complain(f"--report {self.options.report}: {error.strerror}", f"--report {self.options.report}：{error.strerror}")


def _words(output: str, number: int | None, kills: str, counted: bool) -> "list[Evidence]":
    """What it left: the end of its output, what a shell would have said of its signal, the kernel's counters.

    kills: a line about programs that the kernel ended meanwhile; counted: whether it counts them, so that "" means that there were none.
    """
    from ongpu.hosts import pasted
    from ongpu.queue.run import SHELL

    found: list[Evidence] = []
    if output.strip():
        with contextlib.suppress(pasted.Unreadable):
            found += pasted.read_text(output, say("output", "输出"))
    told = number == signal.SIGKILL and counted and not kills  # somebody else sent it: no word of memory is to be made of it
    if number is not None and not told and (words := SHELL.get(number)):
        found += pasted.read_text(words, say("exit status", "退出状态"))
        found += pasted.read_text(kills, say("counters", "计数")) if kills and number == signal.SIGKILL else []
    return found


def _judged(words: "list[Evidence]", watching: Any, subject: str) -> "Report":
    """What the rules say of its last words and of its GPUs."""
    from ongpu.engine import diagnose
    from ongpu.model import Report, Verdict

    evidence = [*words, *(watching.evidence() if watching else ())]
    if not any(item.text for item in evidence):
        return Report(subject=subject, verdict=Verdict.UNKNOWN)  # nothing to be judged: no rule is loaded
    return diagnose(evidence, subject)


# --- what was written


def _command(words: list[str]) -> list[str]:
    from ongpu.hosts.processes import which

    argv = words[1:] if words[:1] == ["--"] else words
    if not argv:
        raise Bad("run: no command; write: ongpu run -- python train.py", "run：没有命令；请写：ongpu run -- python train.py")
    name = argv[0]
    if which(name, os.environ.get("PATH")) is None:
        if os.path.isdir(name):
            raise Bad(f"{name}: a folder, no command", f"{name}：是文件夹，不是命令", 126)
        if os.path.exists(name):
            more = f"not executable, or not on PATH; write: ongpu run -- python {name}" if name.endswith(".py") else "not executable (chmod +x)"
            chinese = f"没有执行权限或不在 PATH 中；请写：ongpu run -- python {name}" if name.endswith(".py") else "没有执行权限（chmod +x）"
            raise Bad(f"{name}: {more}", f"{name}：{chinese}", 126)
        raise Bad(f"{name}: command not found", f"{name}：找不到该命令", 127)
    return argv


def _count(text: str, option: str, most: int) -> int:
    if not re.fullmatch(r"\d{1,4}", text) or int(text) > most:
        raise Bad(f"{option} {text}: a number from 0 to {most}", f"{option} {text}：应为 0 到 {most} 的数")
    return int(text)


def _size(text: str) -> int:
    """MiB of "20GiB", "20G", "20000 MB" (powers of 1024 in all: so GPUs are sold and told)."""
    match = _SIZE.fullmatch(text.strip())
    if not match or not match["unit"] or not float(match["n"]):
        raise Bad(f"--memory {text}: write 20GiB or 512MiB", f"--memory {text}：请写 20GiB 或 512MiB")
    return max(1, int(float(match["n"]) * 1024 ** UNITS[match["unit"].lower()] / 1024**2))
