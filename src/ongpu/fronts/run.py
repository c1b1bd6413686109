"""`ongpu run`: a command on healthy, free GPUs, unchanged; what it used, and why it died."""

import argparse
import contextlib
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ongpu.fronts import under
from ongpu.fronts.answer import add_language, coloured, complain, language, say
from ongpu.fronts.run_words import Bad, aside, command, count, fit, memory
from ongpu.hosts.leases import LEASED

if TYPE_CHECKING:
    import threading

    from ongpu.hosts.leases import Holder, Lease
    from ongpu.hosts.running import Running
    from ongpu.model import Report
    from ongpu.queue.choice import Card, Refused
    from ongpu.queue.run import Ending, Used

T = TypeVar("T")
UNFIT, LATER = 69, 75  # sysexits.h: EX_UNAVAILABLE (what there is is not fit), EX_TEMPFAIL (all is taken; another time)
PATIENCE = 10.0  # seconds for a driver that does not answer
LOOK_AGAIN, LEASES_EVERY = 10.0, 0.5  # seconds between two looks of one that waits: at the GPUs; at the leases alone, which costs nothing
PACKAGES = 1.5  # seconds after the command's end that what keeps its packages off the GPUs may still take
RACES = 5  # times that somebody else may take a GPU between our look and our hand
GPUS_MOST = 1024
MORE_MOST = 80  # letters of who holds a GPU
_PYTHON = re.compile(r"python[0-9.]{0,8}")


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--gpus", default="1", metavar="N", help=say("how many GPUs (default: 1; 0: none)", "需要几块 GPU（默认 1；0 表示不用）"))
    parser.add_argument("--memory", metavar="SIZE", help=say("free memory that each must have: 20GiB", "每块 GPU 至少要有的空闲显存：20GiB"))
    parser.add_argument("--wait", action="store_true", help=say("wait until they are free", "等到有空闲 GPU 为止"))
    parser.add_argument("--retry-on-gpu-fault", nargs="?", const="1", default="0", metavar="N", help=say(
        "start anew on other GPUs where a GPU was at fault, at most N times (default: once)", "因 GPU 故障而失败时换 GPU 重试，最多 N 次（默认一次）"))  # fmt: skip
    parser.add_argument("--sanitize", nargs="?", const="memcheck", metavar="CHECK", help=say(
        "run it under compute-sanitizer: memcheck (default), racecheck, initcheck, synccheck, leakcheck", "在 compute-sanitizer 下运行：memcheck（默认）、racecheck、initcheck、synccheck、leakcheck"))  # fmt: skip
    parser.add_argument("--profile", nargs="?", const="auto", metavar="TOOL", help=say(
        "record where its time goes, with nsys, torch (PyTorch's own), or auto (default)", "记录时间花在哪里：nsys、torch（PyTorch 自带）或 auto（默认）"))  # fmt: skip
    parser.add_argument("--report", metavar="FILE", help=say("keep what it used and the diagnosis (.json or .html)", "把用量与诊断存成文件（.json 或 .html）"))
    parser.add_argument("--no-check", action="store_true", help=say("do not refuse GPUs that are not fit", "不检查 GPU 是否可用"))
    parser.add_argument("--no-tee", action="store_true", help=say(
        "leave its output alone; its last words are not judged then", "不经手它的输出；失败时也就不分析输出"))  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help=say("say nothing where all went well", "一切正常时不输出任何信息"))
    parser.add_argument("--no-kernel-log", action="store_true", help=argparse.SUPPRESS)  # tests: another machine's log is in there
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)  # another file system, for what is asked of the machine: tests
    add_language(parser)
    parser.add_argument("command_line", nargs=argparse.REMAINDER, metavar=say("-- COMMAND ...", "-- 命令 ..."), help=say("the command, unchanged", "要运行的命令，原样执行"))
    parser.usage = say("ongpu run [options] -- COMMAND [ARGUMENT ...]", "ongpu run [选项] -- 命令 [参数 ...]")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Choose, lease, run, watch, tell. The command's exit code, or 2, 69, 75 where it was not started."""
    if sys.platform == "win32":
        return complain("run: not on Windows yet", "run：暂不支持 Windows")
    with aside():
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
        fit(under.spelt, options)
        self.argv = command(options.command_line)
        self.count = count(options.gpus, "--gpus", GPUS_MOST)
        self.retries = count(options.retry_on_gpu_fault, "--retry-on-gpu-fault", 100)
        self.memory = memory(options.memory) if options.memory is not None else None
        if options.report is not None:
            from ongpu.fronts.running import unkeepable

            if bad := unkeepable(options.report):
                raise Bad(f"--report {options.report}: {bad[0]}", f"--report {options.report}：{bad[1]}")
        self.tool = fit(under.chosen, options, self.argv, os.environ, self.lang)
        self.avoid: set[str] = set()
        self.mine = frozenset(filter(None, os.environ.get(LEASED, "").split(",")))  # of the job that we are a part of
        self.warned = self.stopped = False  # it was told about its packages; it was asked to end
        self.report: Report | None = None  # what the machine said of itself
        self.running: Running | None = None
        self.tries: list[dict[str, Any]] = []  # how each ended, where a report is kept
        self.uuids: list[str] = []  # of all GPUs

    def go(self) -> int:
        """The command, and again elsewhere where that is asked for."""
        code: int | None = None  # of the try before
        while True:
            try:
                cards, lease = ([], None) if self.count == 0 else self._take()
            except Bad as error:
                if code is None:
                    raise
                complain(f"not started anew: {error.english}", f"没有重新启动：{error.chinese}")
                return code  # it did run: its exit code is the answer
            if code is not None:
                self.tell(say("a GPU was at fault, not the program: started anew elsewhere", "故障在 GPU 而不在程序：换 GPU 重新启动"))
            try:
                code, ending = self._once(cards, lease)
            finally:
                if lease:
                    lease.close()
            if not ending.retry or self.retries == 0 or self.stopped:
                return code
            self.retries -= 1
            self.avoid |= set(ending.gpus or (card.card or card.uuid for card in cards))

    def tell(self, words: str) -> None:
        """One line of ours, on standard error."""
        raw = self.running is not None and self.running.raw is not None  # the terminal does not begin a line by itself then
        end = "\r\n" if raw else "\n"
        before = end if self.running is not None and self.running.mid_line() else ""
        print(f"{before}ongpu: {words}", file=sys.stderr, flush=True, end=end)

    # --- which GPUs

    def _take(self) -> "tuple[list[Card], Lease | None]":
        from ongpu.hosts import leases

        told, races = False, 0
        place = leases.folder()
        while True:
            chosen = self._choose(place)
            if isinstance(chosen, list):
                if self.mine:
                    return chosen, None  # the job that we are a part of has the lease
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
        before, end = self._held(place).keys(), time.monotonic() + LOOK_AGAIN
        while time.monotonic() < end and self._held(place).keys() == before:
            time.sleep(LEASES_EVERY)

    def _held(self, place: Path) -> "dict[str, Holder]":
        """Who holds which GPU. One whose file somebody spoiled hides no lease of the others."""
        from ongpu.hosts import leases

        found: dict[str, Holder] = {}
        for uuid in self.uuids:
            with contextlib.suppress(leases.Unusable):
                found |= leases.held(place, [uuid])
        return found

    def _choose(self, place: Path) -> "list[Card] | Bad":
        """The GPUs, or why there are none now; raises Bad where there never will be."""
        from ongpu.lazy import replace
        from ongpu.queue import gate, machine
        from ongpu.queue.choice import Chosen, Request, choose

        report = machine.ask(self.options.root, patience=PATIENCE)
        policy = None if self.options.no_check else gate.DEFAULT
        seen = gate.cards(report)
        if not seen:
            reasons = gate.decide(report, gate.Asked()).reasons
            more = say("`ongpu doctor` says what is wrong; --gpus 0 runs it without", "`ongpu doctor` 会说明原因；--gpus 0 可不用 GPU 运行")
            if not reasons:
                raise Bad(f"no GPU answers; {more}", f"没有 GPU 应答；{more}", UNFIT)
            why = reasons[0]
            raise Bad(f"{why.slug}: {why.text('en')}; {more}", f"{why.slug}：{why.text('zh')}；{more}", UNFIT)
        self.uuids = [uuid for gpu in seen for uuid in (gpu.uuid, *(part.uuid for part in gpu.slices or ())) if uuid]
        held = self._held(place)
        self.mine &= held.keys()  # of a job that has ended long ago (a tmux outlives it) nothing is ours
        held = {uuid: holder for uuid, holder in held.items() if uuid not in self.mine}
        cards = machine.cards_of(report, held, policy, root=self.options.root, lang=self.lang)
        if self.mine:  # those that compute there are of the same job
            cards = [replace(card, foreign=()) if card.uuid in self.mine else card for card in cards]
        want = gate.asked({name: value for name, value in os.environ.items() if name == "CUDA_VISIBLE_DEVICES"})
        only = None if want.names is None else machine.visible(report, want.names)
        only = only if not self.mine else self.mine if only is None else only & self.mine
        self.report = report
        answer = choose(cards, Request(self.count, self.memory, frozenset(self.avoid), only))
        if isinstance(answer, Chosen):
            return list(answer.cards)
        bad = self._refused(answer, cards)
        if bad.code != LATER:
            raise bad
        return bad

    def _packages(self) -> "threading.Thread | None":
        """Once, beside the command: what keeps its packages off the GPUs, where it is a Python; told as soon as it is known."""
        import threading

        from ongpu.hosts.processes import which
        from ongpu.queue.machine import unable

        python, report = which(self.argv[0], os.environ.get("PATH")), self.report
        if self.warned or self.options.no_check or report is None or python is None or not _PYTHON.fullmatch(os.path.basename(python)):
            return None
        self.warned = True

        def look() -> None:
            for finding in unable(report, python):
                self.tell(f"{finding.slug}: {finding.text(self.lang).title}")

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        return thread

    def _refused(self, answer: "Refused", cards: "Sequence[Card]") -> Bad:
        from ongpu.queue import words as words_of
        from ongpu.queue.run import labels

        words = {
            "partitioned": ("partitioned (MIG), but no slice of it was made (nvidia-smi mig -cgi ... -C)", "已开启分区（MIG），但未创建切片（nvidia-smi mig -cgi ... -C）"),
            "slice": ("a program sees only one slice (MIG): ask for --gpus 1", "一个程序只能看到一个切片（MIG）：请用 --gpus 1"),
            "hidden": ("hidden by CUDA_VISIBLE_DEVICES", "被 CUDA_VISIBLE_DEVICES 隐藏"),
            "avoided": ("was at fault before", "此前出过故障"), "unfit": ("not fit: {}", "不可用：{}"), "leased": ("leased by {}", "已被租用：{}"),
            "small": ("has {} in all", "总共只有 {}"), "busy": ("in use: {}", "使用中：{}"), "full": ("only {} free", "仅空闲 {}"),
        }  # fmt: skip
        alike: dict[tuple[str, ...], list[str]] = {}
        for label, word, more in answer.each:
            told = words_of.size(int(more)) if word in ("small", "full") and more.isdecimal() else more[:MORE_MOST]
            texts = words_of.drained(*more.rpartition(": ")[::2]) if word == "drained" else tuple(text.format(told) for text in words[word])
            alike.setdefault(texts, []).append(label)
        english = "; ".join(f"{labels(some)}: {text}" for (text, _), some in alike.items())
        chinese = "；".join(f"{labels(some)}：{text}" for (_, text), some in alike.items())
        each = words_of.size(self.memory) if self.memory else ""
        asked, wanted = f"--gpus {self.count}" + (f" with {each}" if each else ""), f"--gpus {self.count}" + (f"（每块 {each}）" if each else "")
        if answer.never:
            largest = f", the largest has {words_of.size(answer.largest)}" if answer.largest and self.memory else ""
            most = f"，最大的有 {words_of.size(answer.largest)}" if answer.largest and self.memory else ""
            fits = say(f"at most {answer.fits} would fit", f"最多可用 {answer.fits} 块") if answer.fits else say("none would fit", "没有一块满足")
            unfit = all(word in ("unfit", "avoided") for _, word, _ in answer.each) and bool(answer.each)
            here = sum(not card.partitioned or all(card.uuid != part.card for part in cards) for card in cards)
            return Bad(
                f"{asked}: this machine has {here}{largest}; {fits}" + (f" ({english})" if english else ""),
                f"{wanted}：本机有 {here} 块{most}；{fits}" + (f"（{chinese}）" if chinese else ""), UNFIT if unfit else 2,
            )  # fmt: skip
        hint = ("", "") if self.options.wait else ("; --wait waits", "；--wait 可等待")
        return Bad(f"{asked}: not free now ({english}){hint[0]}", f"{wanted}：现在没有空闲（{chinese}）{hint[1]}", LATER)

    # --- the command

    def _once(self, cards: "Sequence[Card]", lease: "Lease | None") -> "tuple[int, Ending]":
        from ongpu.fronts.running import Watching
        from ongpu.hosts import oom_kills
        from ongpu.hosts.running import Running
        from ongpu.lazy import replace
        from ongpu.model import Verdict
        from ongpu.queue import postmortem
        from ongpu.queue import run as ends
        from ongpu.queue import words as words_of

        environ = dict(os.environ)
        environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        environ["CUDA_VISIBLE_DEVICES"] = ",".join(card.uuid for card in cards)
        if lease:
            environ[LEASED] = environ["CUDA_VISIBLE_DEVICES"]
        if cards and not self.options.quiet:
            names = ", ".join(f"GPU {card.index} ({card.name})" for card in cards)
            self.tell(say(f"on {names}", f"使用 {names}"))
            for card in cards:
                if card.last:
                    self.tell(f"GPU {card.index}{say(': ', '：')}{say(*words_of.unexplained(card.unexplained))}")
        argv, tool = self.argv, self.tool
        if tool:
            argv = fit(tool.prepare, argv, environ)
            if not self.options.quiet:
                self.tell(tool.words())
        start, begin, kills = time.time(), time.monotonic(), oom_kills.count()
        below = tool.under if tool else None
        running = self.running = Running(argv, environ, list(lease.files.values()) if lease else (), not self.options.no_tee, below)
        checking = self._packages()
        used = [ends.Used(card.index, card.uuid, card.name, card.total, card=card.card) for card in cards]
        watching = Watching(used, running.pid, start, self.tell, self.options.no_kernel_log, below) if cards else None
        while running.status is None:
            running.step(1.0)
        seconds = time.monotonic() - begin
        if checking:
            checking.join(PACKAGES if running.status == 0 else 2 * PACKAGES)
        if watching:
            watching.stop(hasty=running.status == 0)
        output = running.output()
        running.close()
        code = running.status if tool is None or tool.started() else running.status or under.CANNOT_RUN
        number = ends.signal_of(code) if running.signal is None else running.signal
        self.stopped = not ends.STOPPING.isdisjoint(running.from_user)
        killed = oom_kills.since(kills)
        words = [] if code == 0 else postmortem.words(output, number, killed, bool(kills), self.lang)
        report = postmortem.judged([*words, *(tool.evidence() if tool else ()), *(watching.evidence() if watching else ())], " ".join(self.argv)[:200])
        if kills and not killed:
            report = postmortem.spared(report)
        if code and report.verdict is Verdict.CLEAR:  # its GPUs are well, and it failed: the rules do not know why
            report = replace(report, verdict=Verdict.UNKNOWN)
        ending = ends.ending(code, number, running.from_user, report, used)
        self._summary(ending, used, seconds, code, running.signal, report, output)
        if tool:
            tool.explain(report, {finding.slug for finding in ending.findings}, self.options.quiet and code == 0)
        if self.options.report:
            self._keep(ending, used, seconds, code, number, report, output)
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
            if gpu.unused:
                print("    " + say("it was not used: no program of the command computed on it", "没有用到：命令的程序没有在上面计算"), file=sys.stderr)
            elif gpu.index in why and why[gpu.index].slug != "gpu-free":  # it is, now that the command has ended
                print(f"    {why[gpu.index].slug}: {why[gpu.index].text(self.lang).title}", file=sys.stderr)
        if ending.kind != ends.OK:
            self._post_mortem(ending, used, code, number, report, output)

    def _post_mortem(self, ending: "Ending", used: "Sequence[Used]", code: int, number: int | None, report: Any, output: str) -> None:
        from ongpu.fronts.answer import columns
        from ongpu.lazy import replace
        from ongpu.queue import run as ends
        from ongpu.report import as_text

        how = say(f"exit code {code}", f"退出码 {code}") if number is None else say(f"signal {number}", f"信号 {number}")
        within = ends.signal_of(code) if number is None else None  # of a program that the command started, as shells tell it
        how += say(f" (signal {within} within)", f"（内部程序收到信号 {within}）") if within else ""
        words = ends.said(ending.kind, within if number is None else number, [finding.slug for finding in ending.findings])
        self.tell(f"{how}{'：' if self.zh else ': '}{say(*words)}")
        if ending.kind == ends.OUT_OF_MEMORY and (fits := ends.what_fits(report, used)):
            print(f"  {fits[self.zh]}", file=sys.stderr)
        if ending.kind == ends.GPU_FAULT and ending.gpus:
            sick = ", ".join(f"GPU {gpu.index} ({gpu.uuid})" for gpu in used if gpu.whole in ending.gpus)
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

    def _keep(
        self, ending: "Ending", used: "Sequence[Used]", seconds: float, code: int, number: int | None, report: Any, output: str
    ) -> None:
        from ongpu.fronts.running import as_html, as_json

        told: dict[str, Any] = {
            "schema": 1, "command": self.argv, "code": code, "signal": number, "ending": ending.kind, "gpus_at_fault": list(ending.gpus), "seconds": round(seconds, 2),
            **({"tool": self.tool.kind, "tool_files": self.tool.folder} if self.tool else {}),
        }  # fmt: skip
        self.tries.append({name: told[name] for name in ("code", "signal", "ending", "gpus_at_fault", "seconds")})
        told["tries"] = self.tries  # the last one is this one
        make = as_json if self.options.report.endswith(".json") else as_html
        try:
            Path(self.options.report).write_text(make(told, used, report, self.lang, output), "utf-8")
        except OSError as error:  # the command's exit code counts more
            complain(f"--report {self.options.report}: {error.strerror}", f"--report {self.options.report}：{error.strerror}")
