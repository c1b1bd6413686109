"""The GPUs of a command while it runs, for `ongpu run`: looked at once a second beside it, and what is kept of that."""

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from ongpu.fronts.answer import say
from ongpu.hosts.sampling.feed import Feed
from ongpu.hosts.sampling.proc import read, stat
from ongpu.hosts.under import Under
from ongpu.model import Evidence, Report
from ongpu.queue.run import HOT_START, Recorder, Used, duration, said, strangers, used_line
from ongpu.watch import evidence
from ongpu.watch.state import State
from ongpu.watch.window import Window

INTERVAL, PROCESSES_EVERY = 1.0, 2.0  # seconds
LISTEN = 0.25  # seconds that one wait for a message takes at most: so long may our end take
LAST_LOOK = 0.3  # seconds that are given to the kernel's last lines
MOST_LINES = 200


class Watching:
    """A thread that reads the sampling child until `stop`. tell: prints one line for people. under: the command, where pid is a tool's."""

    def __init__(
        self, used: Sequence[Used], pid: int, start: float, tell: Callable[[str], None], no_log: bool = False, under: Under | None = None
    ) -> None:
        self.used, self.pid, self.start, self.tell, self.under = used, pid, start, tell, under
        self.state, self.window = State(interval=INTERVAL), Window()
        self.recorder = Recorder(used, start)
        self.ours: set[int] = {pid}
        self.ended = threading.Event()
        self.feed = Feed(interval=INTERVAL, proc_every=PROCESSES_EVERY, kernel_log=None if no_log else "/dev/kmsg")
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self) -> None:
        while not self.ended.is_set():
            message = self.feed.next(LISTEN)
            if message:
                self._take(message)
            else:
                self.state.tick(time.time())

    def _take(self, message: Mapping[str, Any]) -> None:
        now = time.time()
        changes = self.state.take(dict(message), now)
        self.window.take(message, now)
        self.recorder.take(message, now)
        for change in changes:
            kind, _, rest = change.partition(":")
            if kind == "xid":
                index, _, code = rest.partition(":")
                self.recorder.xid(int(index) if index.isdigit() else None, int(code))
        if message.get("k") == "p" and isinstance(message.get("g"), dict):
            self._look_for_strangers(message["g"], now)

    def _look_for_strangers(self, listed: Mapping[str, Any], now: float) -> None:
        if self.under and (command := self.under.pid()):
            self.ours.add(command)
        pids = {row[0] for rows in listed.values() if isinstance(rows, list) for row in rows if isinstance(row, list) and row}
        self.ours |= {pid for pid in pids - self.ours if isinstance(pid, int) and self._descends(pid)}
        by_uuid = {gpu.uuid: gpu for gpu in self.used if not gpu.card}  # on a partitioned card others are neighbours, not strangers
        for part in (gpu for gpu in self.used if gpu.card):
            rows = [row for row in listed.get(str(part.index)) or () if isinstance(row, list) and len(row) == 4]
            if sizes := [row[1] for row in rows if row[0] in self.ours and isinstance(row[1], int)]:
                part.hold(now - self.start, sum(sizes))
        for one in self.used:
            rows = [row for row in listed.get(str(one.index)) or () if isinstance(row, list) and row]
            one.computed = one.computed or any(row[0] in self.ours for row in rows)
        for uuid, pid, size in strangers(listed, self.recorder.places, self.ours):
            gpu = by_uuid.get(uuid)
            if gpu and pid not in gpu.strangers and _known(pid):
                words = f"pid {pid}" + ("" if size is None else f", {size} MiB")
                gpu.strangers[pid] = words
                if now - self.start < HOT_START:
                    self.tell(say(
                        f"GPU {gpu.index} is used by somebody else too, since a moment ago: {words}", f"GPU {gpu.index} 刚刚也被他人占用：{words}"))  # fmt: skip

    def _descends(self, pid: int) -> bool:
        """Whether the command started it, at some remove."""
        for _ in range(64):
            if pid in self.ours:
                return True
            about = stat(read(f"/proc/{pid}/stat") or b"")
            if about is None or about.parent <= 1:
                return False
            pid = about.parent
        return False

    def stop(self, hasty: bool) -> None:
        """The command has ended. hasty: it went well, so that nothing more need be heard; else the kernel's last lines are waited for."""
        if not hasty:
            time.sleep(LAST_LOOK)
        self.ended.set()
        self.thread.join(8 * LISTEN)
        self.feed.close()

    def evidence(self) -> list[Evidence]:
        """What the rules read of the time since the start: the GPUs now, the kernel's lines, the window."""
        mine = [gpu for gpu in self.state.gpus.values() if gpu.uuid in self.recorder.used]
        told = evidence.told_in(self.state.full)
        lines = [text for at, text in self.state.log if at >= self.start - 1.0][-MOST_LINES:]
        lines += [f"NVML event: GPU {gpu.index}: Xid {code}" for gpu in self.used for code in gpu.xids if not _logged(code, lines)]
        found = [*evidence.nvml(self.state, told, mine), evidence.kernel(lines)]
        trend = self.window.evidence([gpu.index for gpu in mine])
        return [trend, *found] if trend else found


def _known(pid: int) -> bool:
    """Whether that number means a process here. In a container NVML tells the host's numbers: the command's own cannot be told from
    others' there. (/proc may hide others' processes; this does not.)"""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return True


def _logged(code: int, lines: Sequence[str]) -> bool:
    return any("Xid" in line and f": {code}," in line for line in lines)


def unkeepable(path: str) -> tuple[str, str] | None:
    """Why a report cannot be kept there, in English and Chinese; asked before the command runs for hours."""
    folder = os.path.dirname(path) or "."
    if not path.endswith((".json", ".html")):
        return ".json or .html", "只支持 .json 或 .html"
    if os.path.isdir(path):
        return "a folder", "是文件夹"
    if not os.path.isdir(folder):
        return f"there is no folder {folder}", f"没有文件夹 {folder}"
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        return "not writable", "不可写"
    return None


def as_json(told: Mapping[str, Any], used: Sequence[Used], report: Report, lang: str, output: str) -> str:
    """All of it, schema 1."""
    from ongpu.report.as_json import to_dict

    gpus = [
        {
            "index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, "memory_mib": gpu.total, "busy": gpu.busy, "memory_peak_mib": gpu.peak,
            "energy_j": gpu.energy, "xids": gpu.xids, "strangers": list(gpu.strangers.values()), "memory_timeline": gpu.line,
        }
        for gpu in used
    ]  # fmt: skip
    whole = {**told, "gpus": gpus, "report": to_dict(report, lang), "output": output}
    return json.dumps(whole, ensure_ascii=False, indent=1, default=str) + "\n"


def as_html(told: Mapping[str, Any], used: Sequence[Used], report: Report, lang: str, output: str) -> str:
    """The diagnosis as a page, what it used before it, and its last output after it."""
    from ongpu.report import as_html as page

    zh = lang == "zh"
    how = say(f"exit code {told['code']}, after {duration(told['seconds'], zh)}", f"退出码 {told['code']}，运行 {duration(told['seconds'], zh)}")
    words = said(told["ending"], told["signal"], [finding.slug for finding in report.findings])[zh]
    lines = [f"$ {' '.join(told['command'])}", f"{how}{'：' if zh else ': '}{words}", *(used_line(gpu, zh) for gpu in used)]
    for one in told["tries"][:-1]:
        sick = ", ".join(one["gpus_at_fault"])
        before = say(f"before: exit code {one['code']}, after {duration(one['seconds'], zh)}", f"此前：退出码 {one['code']}，运行 {duration(one['seconds'], zh)}")
        lines.append(f"{before}{'：' if zh else ': '}{said(one['ending'], one['signal'])[zh]} {sick}".rstrip())
    head = "".join(f"<p>{escape(line)}</p>" for line in lines) + "".join(_curve(gpu) for gpu in used)
    text = page.render(report, lang)
    before, found, after = text.partition("<body>")
    text = f"{before}{found}{head}{after}" if found else head + text
    tail = f"<pre>{escape(output[-16384:])}</pre>" if output.strip() else ""
    return text.replace("</body>", f"{tail}</body>") if "</body>" in text else text + tail


def _curve(gpu: Used) -> str:
    """The memory in use over time."""
    if len(gpu.line) < 2 or not gpu.total:
        return ""
    last = gpu.line[-1][0] or 1.0
    points = " ".join(f"{600 * at / last:.0f},{80 - 78 * used / gpu.total:.0f}" for at, used in gpu.line)
    shape = f'<polyline fill="none" stroke="currentColor" points="{points}"/>'
    return f'<svg viewBox="0 0 600 82" width="100%" height="82" role="img"><title>GPU {gpu.index}: MiB</title>{shape}</svg>'
