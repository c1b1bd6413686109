"""How jobs are spoken of in both languages: states, endings, what was asked for, why one waits."""

import time
from collections.abc import Iterable, Mapping, Sequence

from ongpu.queue.job import HELD, WAITING, Card, Spec, Told
from ongpu.queue.reasons import Reason
from ongpu.queue.reasons import size as size

_SCRIPTS = (".py", ".sh", ".bash", ".ipynb", ".R", ".jl", ".pl")
STATES: Mapping[str, tuple[str, str]] = {
    "waiting": ("waiting", "等待"), "held": ("held", "已挂起"), "starting": ("starting", "启动中"), "running": ("running", "运行中"),
    "ending": ("ending", "结束中"), "done": ("done", "完成"), "failed": ("failed", "失败"), "cancelled": ("cancelled", "已取消"),
    "lost": ("lost", "下落不明"),
}  # fmt: skip
ENDINGS: Mapping[str, tuple[str, str]] = {
    "ok": ("ended well", "正常结束"),
    "gpu-fault": ("a GPU was at fault, not the program", "故障在 GPU，不在程序"),
    "out-of-memory": ("the GPU's memory ran out", "显存不足"),
    "host-memory": ("the host's memory (RAM) ran out", "主机内存（RAM）用尽"),
    "program": ("the program's own fault", "程序自身出错"),
    "signal": ("ended by a signal", "被信号终止"),
    "stopped": ("stopped on request", "按要求停止"),
    "timeout": ("it reached its time limit", "到达时限"),
    "idle": ("stopped: it did not use its GPUs", "因未使用 GPU 而停止"),
    "preempted": ("gave way to another job", "让位于其他作业"),
    "vanished": ("it was killed together with what watched it: nobody knows how it ended", "与看护进程一同被杀，结局未知"),
    "reboot": ("the machine was restarted", "机器重启"),
    "not-started": ("it could not be started", "未能启动"),
    "dependency": ("never started: a job that it was to follow did not end well", "未运行：它所依赖的作业未成功结束"),
}
CARDS: Mapping[str, tuple[str, str]] = {
    "ok": ("free", "空闲"), "busy": ("busy", "忙"), "suspect": ("suspect", "可疑"), "drained": ("drained", "已停用"),
    "testing": ("testing", "检测中"), "foreign": ("used by others", "他人占用"),
}  # fmt: skip
_ASKED: Mapping[str, tuple[str, str]] = {
    "gpus_0": ("no GPU", "不用 GPU"), "gpus_1": ("1 GPU", "1 块 GPU"), "gpus": ("{} GPUs", "{} 块 GPU"),
    "share": ("a part of {}", "共用 {}"), "memory": ("{} each", "每块 {}"), "part": ("{} of memory", "显存 {}"),
    "model": ("model {}", "型号 {}"), "capability": ("compute capability {} or newer", "计算能力 {} 以上"),
    "limit": ("at most {}", "至多 {}"), "cpus_1": ("1 CPU", "1 个 CPU"), "cpus": ("{} CPUs", "{} 个 CPU"),
    "host_memory": ("{} of RAM", "内存 {}"), "priority": ("priority {:+d}", "优先级 {:+d}"),
    "retries_1": ("1 retry", "最多重试 1 次"), "retries": ("up to {} retries", "最多重试 {} 次"),
    "checkpoint": ("saves its state at {}", "收到 {} 时保存状态"), "after": ("after {}", "在 {} 之后"),
    "reservation": ("reservation {}", "预留 {}"), "idle": ("idle at most {}", "空闲至多 {}"),
}  # fmt: skip


def brief(length: float) -> str:
    """ "45s", "12m", "2h03m", "3d04h" of seconds: for a column; the same in both languages."""
    whole = max(0, round(length))
    if whole < 60:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes}m"
    hours = minutes // 60
    return f"{hours}h{minutes % 60:02}m" if hours < 24 else f"{hours // 24}d{hours % 24:02}h"


def ranges(numbers: Iterable[int]) -> str:
    """ "0-3,7" of 0, 1, 2, 3, 7: as --array takes them."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in parts)


def called(command: Sequence[str]) -> str:
    """What to call a job that was given no name: the script or module in its command, else the program."""
    for place, word in enumerate(command):
        if word == "-m" and place + 1 < len(command):
            return command[place + 1][:60]
        if word.endswith(_SCRIPTS):
            return word.rpartition("/")[2][:60]
    return command[0].rpartition("/")[2][:60] if command else ""


def state(name: str, lang: str) -> str:
    """A state's name."""
    return STATES.get(name, (name, name))[lang == "zh"]


def ending(job: Told, lang: str) -> str:
    """How it ended: "the GPU's memory ran out"; its state where no more is known."""
    return ENDINGS[job.ending][lang == "zh"] if job.ending in ENDINGS else job.ending or state(job.state, lang)


def title(spec: Spec) -> str:
    """What it is called: its name, else its command; an array's index behind it. One line, nothing in it that a terminal obeys."""
    text = spec.name or " ".join(spec.command)
    return plain(text) if spec.index is None else f"{plain(text)}[{spec.index}]"


def plain(text: str) -> str:
    """The text in one line, what does not print replaced."""
    return "".join(char if char.isprintable() else " " if char in "\n\t\r" else "\ufffd" for char in text[:2000]).strip()


def asked(spec: Spec, lang: str) -> list[str]:
    """What it asks for, in parts."""
    zh = lang == "zh"

    def word(name: str, *values: object) -> str:
        return _ASKED[name][zh].format(*values)

    gpus = word(f"gpus_{spec.gpus}" if spec.gpus < 2 else "gpus", spec.gpus)
    parts = [word("share", gpus) if spec.share else gpus]
    if spec.memory:
        parts.append(word("part" if spec.share else "memory", size(spec.memory)))
    if spec.model:
        parts.append(word("model", plain(spec.model)))
    if spec.capability:
        parts.append(word("capability", ".".join(map(str, spec.capability))))
    if spec.limit:
        parts.append(word("limit", brief(spec.limit)))
    if spec.cpus:
        parts.append(word("cpus_1" if spec.cpus == 1 else "cpus", spec.cpus))
    if spec.host_memory:
        parts.append(word("host_memory", size(spec.host_memory)))
    if spec.priority:
        parts.append(word("priority", spec.priority))
    if spec.after:
        parts.append(word("after", ", ".join(name for _, name in spec.after)))
    if spec.reservation:
        parts.append(word("reservation", plain(spec.reservation)))
    if spec.retries > 1 or (spec.retries and spec.retry_on == "any"):  # one at a GPU's fault is what everyone gets
        parts.append(word("retries_1" if spec.retries == 1 else "retries", spec.retries))
    if spec.checkpoint:
        parts.append(word("checkpoint", spec.checkpoint))
    if spec.idle:
        parts.append(word("idle", brief(spec.idle)))
    return parts


def because(job: Told, lang: str) -> str:
    """Why it waits, or what its engine says of it: its last word, be that a Reason as JSON or a sentence; "" where it said nothing."""
    if (reason := Reason.of(job.said) or _plainly(job)) is not None:
        return plain(reason.text(lang))
    return "" if job.said.startswith('["') else plain(job.said)  # a Reason of a newer ongpu


def _plainly(job: Told) -> Reason | None:
    """Why it waits, as far as what it asked for says so."""
    if job.said or job.state not in (HELD, WAITING):
        return None
    if job.state == HELD:
        return Reason("held")
    if job.spec.begin and job.spec.begin > time.time():
        return Reason("begin", {"at": time.strftime("%Y-%m-%d %H:%M", time.localtime(job.spec.begin))})
    blocked = job.more.get("blocked")
    return Reason("dependency", {"many": blocked}) if isinstance(blocked, int) and blocked > 0 else None


def condition(card: Card) -> str:
    """What a GPU is to the queue: ok (free), busy, foreign, suspect, drained, testing."""
    if card.state != "ok":
        return card.state
    if card.drained_by:
        return "drained"
    return "busy" if card.jobs else "foreign" if card.foreign or card.holder else "ok"


def drained(who: str, slug: str) -> tuple[str, str]:
    """That somebody's queue took a GPU out of service for the whole machine, and why."""
    from ongpu.queue.engines.local.cards import words

    english, chinese = words(slug) or (slug, slug)
    return f"drained by {plain(who)}: {plain(english)}", f"已由 {plain(who)} 停用：{plain(chinese)}"


def unexplained(size_of_it: int) -> tuple[str, str]:
    """Why a GPU is given out last. MiB."""
    shown = size(size_of_it)
    return f"{shown} of its memory in use by no program that can be seen: given out last", f"{shown} 显存被看不到的程序占用：最后才分配"


def cards(listed: Sequence[Card], lang: str) -> str:
    """ "8 GPUs: 3 free, 4 busy, 1 drained (GPU 5: gpu-fell-off-bus)"; "" where none is known."""
    if not listed:
        return ""
    zh = lang == "zh"
    parts = []
    for name, words in CARDS.items():
        of = [card for card in listed if condition(card) == name]
        if not of:
            continue
        shown = [_named(card) + (f"{'：' if zh else ': '}{card.slug}" if card.slug else "") for card in of[:3]]
        if name in ("suspect", "drained", "testing"):
            more = ("、" if zh else ", ").join(shown) + (" …" if len(of) > 3 else "")
            parts.append(f"{len(of)} {'块' if zh else ''}{words[zh]}" + (f"（{more}）" if zh else f" ({more})"))
        else:
            parts.append(f"{len(of)} 块{words[zh]}" if zh else f"{len(of)} {words[zh]}")
    count = len(listed)
    head = f"{count} 块 GPU：" if zh else f"{count} GPU{'s' if count > 1 else ''}: "
    return head + ("，" if zh else ", ").join(parts)


def _named(card: Card) -> str:
    return f"{card.node} GPU {card.index}" if card.node else f"GPU {card.index}"
