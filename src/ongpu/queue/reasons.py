"""Why a job starts, gives way or waits, in both languages: what `ongpu jobs --why` says."""

import json
from collections.abc import Mapping

from ongpu.lazy import dataclass, field

WORDS: Mapping[str, tuple[str, str]] = {
    "free": ("{gpus:free and healthy GPU fits|free and healthy GPUs fit} it", "有 {gpus} 块空闲且健康的 GPU 符合要求"),
    "no-gpu": ("it needs no GPU", "不需要 GPU"),
    "takes-place": (
        "it has used less GPU time than {victims}, which is asked to save its state and give way",
        "它用过的 GPU 时间比 {victims} 少，后者被要求保存状态后让出",
    ),
    "makes-room": (
        "{victims}, which has used more GPU time, is asked to save its state and to give way to it",
        "已要求用过更多 GPU 时间的 {victims} 保存状态并让出",
    ),
    "overdue": ("it has waited {waited}: overdue jobs come first", "已等待 {waited}：超过期限的作业优先"),
    "gives-way": ("{job} has used less GPU time, and comes first", "{job} 用过的 GPU 时间更少，优先运行"),
    "gives-way-overdue": ("{job} has waited beyond its patience, and comes first", "{job} 等待已超过期限，优先运行"),
    "on-fault": ("a GPU that it runs on has an open fault: {fault}", "它所在的 GPU 有未解除的故障：{fault}"),
    "impossible": (
        "it asks for {gpus:GPU|GPUs} of {memory:size}; only {fitting:here is|here are} healthy and large enough",
        "它要 {gpus} 块 {memory:size} 的 GPU；这里健康且显存足够的只有 {fitting} 块",
    ),
    "memory-used": (
        "it asks for {gpus:GPU|GPUs} of {memory:size}; {fitting:healthy one has|healthy ones have} as much free: programs that are not the "
        "queue's hold memory on the others",
        "它要 {gpus} 块 {memory:size} 的 GPU；健康且空闲显存足够的有 {fitting} 块：其余 GPU 的显存被队列以外的程序占用",
    ),
    "too-few": (
        "it asks for {gpus:GPU|GPUs}; only {fitting:here is|here are} healthy and not used by others",
        "它要 {gpus} 块 GPU；这里健康且未被他人占用的只有 {fitting} 块",
    ),
    "behind": (
        "the fitting GPUs are held by jobs that come before it: {fitting} of {gpus} are free",
        "符合要求的 GPU 被排在前面的作业占用：需要 {gpus} 块，空闲 {fitting} 块",
    ),
    "headroom": (
        "it cannot be interrupted, and such jobs hold their share already ({held} of {allowed:GPU|GPUs}); with a checkpoint signal or a "
        "time limit of at most {short} it could start sooner",
        "它无法中断，而这类作业已占满份额（{held} / {allowed} 块 GPU）；声明检查点信号，或不超过 {short} 的时限，就能更早开始",
    ),
    "reserved": ("GPUs are kept for {job}, which has waited longest", "GPU 已为等待最久的 {job} 预留"),
    "in-turn": ("{job} came first, and does not fit yet", "{job} 在前，且暂时放不下"),
    "held": ("it is held until `ongpu release`", "已挂起，等待 `ongpu release`"),
    "dependency": ("it comes after {many:other job that has|other jobs that have} not ended", "它要等 {many} 个尚未结束的作业"),
    "dependency-1": ("it comes after a job or an array that has not ended", "它要等一个尚未结束的作业或数组"),
    "begin": ("it is not to start before {at}", "不早于 {at} 启动"),
    "at-once": (
        "{many:job of its array runs|jobs of its array run}, as many as may at once",
        "其数组已有 {many} 个作业在运行，达到并行上限",
    ),
    "quota-gpus": ("{who} has {held:GPU|GPUs}; the quota is {allowed}", "{who} 已占 {held} 块 GPU；配额为 {allowed}"),
    "quota-never": ("it asks for {gpus:GPU|GPUs}; the quota of {who} is {allowed}", "它要 {gpus} 块 GPU；{who} 的配额为 {allowed}"),
    "quota-hours": (
        "{who} has used {used} GPU hours in seven days; the quota is {allowed}",
        "{who} 七天内已用 {used} GPU 小时；配额为 {allowed}",
    ),
    "cpus": (
        "it asks for {cpus:CPU|CPUs}; {free} of {total} are left, as jobs asked for them (advisory)",
        "它要 {cpus} 个 CPU；按各作业的声明，{total} 个中还剩 {free} 个（仅作统计）",
    ),
    "cpus-never": ("it asks for {cpus:CPU|CPUs}; this machine gives out {total}", "它要 {cpus} 个 CPU；本机共可分配 {total} 个"),
    "host-memory": (
        "it asks for {memory:size} of host memory; {free:size} of {total:size} are left, as jobs asked for it (advisory)",
        "它要 {memory:size} 主机内存；按各作业的声明，{total:size} 中还剩 {free:size}（仅作统计）",
    ),
    "host-memory-never": (
        "it asks for {memory:size} of host memory; this machine gives out {total:size}",
        "它要 {memory:size} 主机内存；本机共可分配 {total:size}",
    ),
    "reservation": (
        "{gpus:GPU is|GPUs are} reserved ({name}, {begin} to {end}); a shorter time limit could let it run before",
        "{gpus} 块 GPU 已被预留（{name}，{begin} 至 {end}）；时限更短则可能提前运行",
    ),
    "reservation-runs": ("{gpus:GPU is|GPUs are} reserved until {end} ({name})", "{gpus} 块 GPU 已被预留至 {end}（{name}）"),
    "reservation-later": ("its reservation {name} begins at {begin}", "其预留 {name} 于 {begin} 开始"),
    "reservation-over": (
        "its reservation {name} is over, or was taken back: it waits for another one of that name (or cancel it)",
        "其预留 {name} 已结束或被取消：等待同名的新预留（或取消该作业）",
    ),
    "reservation-full": ("the {gpus:GPU|GPUs} of its reservation {name} {gpus:!is|are} in use", "其预留 {name} 的 {gpus} 块 GPU 都在使用"),
    "leaves-reservation": ("GPUs are reserved from now on ({name})", "GPU 从现在起被预留（{name}）"),
    "no-such-gpu": (
        "it asks for {gpus:GPU|GPUs} ({wanted}); {fitting:here is|here are} so; this machine has: {there}",
        "它要 {gpus} 块 GPU（{wanted}）；这里符合的有 {fitting} 块；本机有：{there}",
    ),
    "avoids": (
        "it failed on {many:GPU, and does not start on it|GPUs, and does not start on those} again",
        "它在 {many} 块 GPU 上失败过，不再使用这些 GPU",
    ),
    "no-daemon": ("nothing starts: the queue's daemon does not run", "没有作业会启动：队列守护进程未运行"),
    "looking": ("the GPUs are being looked at", "正在检查 GPU"),
    "blind": ("nothing is known of the GPUs at present", "目前无法得知 GPU 的状态"),
    "no-lease": ("no lease of a GPU can be had: {en}", "无法取得 GPU 租约：{zh}"),
    "said": ("{en}", "{zh}"),
    "no-checkpoint": (
        "no new checkpoint appeared after {signal}; it is not asked to give way again",
        "收到 {signal} 后没有出现新的检查点；不再要求它让出",
    ),
    "no-folder": ("its working directory {folder} is gone, or may not be entered", "工作目录 {folder} 不存在或无法进入"),
    "no-output": ("its output file cannot be opened (see --output)", "无法打开输出文件（见 --output）"),
    "not-found": ("{command}: no such command", "{command}：找不到该命令"),
    "is-folder": ("{command} is a folder", "{command} 是文件夹"),
    "no-run-bit": ("{command} may not be run: chmod +x it, or name its interpreter", "{command} 没有执行权限：请 chmod +x，或写明解释器"),
    "cannot-run": ("{command} cannot be run", "{command} 无法运行"),
    "too-long": ("its command line and environment are longer than the system takes", "命令行与环境变量超过系统上限"),
    "no-proc": ("/proc cannot be read", "无法读取 /proc"),
    "needs-ok": (
        "{job} did not end well, and it was to start only after that",
        "{job} 未成功结束，而它只能在其成功后启动",
    ),
}


def size(amount: float) -> str:
    """ "20 GiB", "512 MiB" of MiB."""
    return f"{amount / 1024:{'.4g' if amount < 1e7 else '.0f'}} GiB" if amount >= 1024 else f"{amount:g} MiB"


class _Value:
    """What fills a sentence: {memory:size}; {gpus:GPU is|GPUs are} with the number before it, {gpus:!is|are} without."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __format__(self, how: str) -> str:
        if how == "size":
            return size(self.value) if isinstance(self.value, (int, float)) else str(self.value)
        if "|" not in how:
            return str(self.value)
        word = how.lstrip("!").split("|")[self.value != 1]
        return word if how.startswith("!") else f"{self.value} {word}"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: its name in WORDS and what fills it."""

    name: str
    values: Mapping[str, object] = field(default_factory=dict)

    def text(self, lang: str) -> str:
        """The sentence in "en" or "zh"."""
        name = self.name
        if name == "impossible" and not self.values.get("memory"):
            name = "too-few"
        elif name == "dependency" and self.values.get("many") == 1:
            name = "dependency-1"
        return WORDS[name][lang == "zh"].format_map({key: _Value(value) for key, value in self.values.items()})

    def json(self) -> str:
        """As it is kept; `Reason.of` reads it."""
        return json.dumps([self.name, dict(self.values)], default=str)

    @staticmethod
    def of(text: str) -> "Reason | None":
        """The reason that `json` wrote; None where the text is none of ours, or of a newer ongpu."""
        try:
            name, values = json.loads(text)
            reason = Reason(name, values)
            reason.text("en"), reason.text("zh")
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            return None
        return reason
