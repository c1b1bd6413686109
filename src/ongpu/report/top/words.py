"""The words and figures of `ongpu top`, in both languages."""

from collections.abc import Sequence

from ongpu.facts.trend import short as short_command
from ongpu.model import Finding, Severity
from ongpu.report.layout import cut, width_of
from ongpu.report.top.view import Card, Program, View
from ongpu.report.words import bracketed, certainty, colon

_WORDS = {
    "gpu": ("GPU", "GPU"), "util": ("util", "利用率"), "memory": ("mem GiB", "显存GiB"), "temp": ("temp C", "温度°C"),
    "power": ("power W", "功耗 W"), "clock": ("MHz", "MHz"), "pcie": ("PCIe", "PCIe"), "ecc": ("ECC", "ECC"), "xid": ("Xid", "Xid"),
    "held": ("held by", "受限于"), "name": ("name", "型号"), "verdict": ("verdict", "结论"),
    "user": ("user", "用户"), "pid": ("pid", "pid"), "gpu_mem": ("GPU mem", "显存"), "host_mem": ("host", "内存"), "cpu": ("CPU", "CPU"),
    "sm": ("SM", "SM"), "job": ("job, command", "作业、命令"), "state": ("state", "状态"), "read": ("disk read", "读盘"),
    "gpus_1": ("1 GPU", "1 块 GPU"), "gpus": ("{count} GPUs", "{count} 块 GPU"), "no_gpus": ("no GPU", "没有 GPU"),
    "gpus_unknown": ("GPUs: not known", "GPU：未知"),
    "driver": ("driver {version}", "驱动 {version}"), "demo": ("simulated", "模拟节点"),
    "down": ("NVML does not answer: {reason}", "NVML 没有应答：{reason}"),
    "doctor": ("`ongpu` (the doctor) says what to do about it", "运行 `ongpu`（诊断）可知如何处理"),
    "last_known": ("what was known before:", "此前的情况："),
    "rests_on": (
        "Verdicts rest on the last {span}. `ongpu watch` keeps a history that says more.",
        "结论依据最近 {span}。运行 `ongpu watch` 保留历史，可判断得更准。",
    ),
    "rests_on_history": (
        "Verdicts rest on the last {span} (the history of `ongpu watch`).",
        "结论依据最近 {span}（来自 `ongpu watch` 的历史）。",
    ),
    "no_verdict": ("no verdict: {because}", "没有结论：{because}"), "little": ("too little is known", "所知太少"),
    "free": ("free: no process on it", "空闲：没有进程"),
    "free_hidden": ("no process seen on it; who uses it is not told ({because})", "未见进程；谁在使用未知（{because}）"),
    "invisible": ("not visible from here (another PID namespace, or hidepid)", "此处不可见（另一 PID 命名空间，或 hidepid）"),
    "not_told": ("- not told: {what}", "- 未给出：{what}"), "of_gpu": ("GPU {which}", "GPU {which}"), "all_gpus": ("all GPUs", "全部 GPU"),
    "processes": ("processes", "进程"), "since": ("for {span}", "已 {span}"), "last_seen": ("last answer {span} ago", "{span}前应答过"),
    "hidden_user_1": ("1 process of others is not shown", "另有 1 个其他用户的进程未显示"),
    "hidden_user": ("{count} processes of others are not shown", "另有 {count} 个其他用户的进程未显示"),
    "log_denied": ("kernel log: {because}", "内核日志：{because}"),
    "no_answer": ("{count} silent", "{count} 块没有应答"),
    "seconds": ("{count} s", "{count} 秒"), "minutes": ("{count} min", "{count} 分钟"), "hours": ("{count} h", "{count} 小时"),
    "mig": (" (MIG is on)", "（已启用 MIG）"),
    "ok": ("answering", "有应答"), "lost": ("lost", "丢失"), "hung": ("hung", "卡死"), "error": ("error", "出错"),
    "denied": ("denied", "无权限"), "gone": ("gone", "消失"), "unknown": ("no answer", "没有应答"),
    "gone_why": ("the driver counts fewer GPUs than before", "驱动报告的 GPU 数量变少"),
    "hung_why": ("a call of NVML for it does not return", "对它的 NVML 调用没有返回"),
    "power-brake": ("power brake", "供电刹车"), "heat-hw": ("heat (hw)", "过热(硬件)"), "heat": ("heat", "过热"),
    "hw-slowdown": ("hw slowdown", "硬件降频"), "reliability": ("reliability", "可靠性"), "board-limit": ("board limit", "板卡限制"),
    "power-cap": ("power cap", "功耗上限"), "app-clocks": ("app clocks", "应用频率"), "sync-boost": ("sync boost", "同步加速"),
    "display": ("display", "显示"), "idle": ("idle", "空闲"),
}  # fmt: skip
# nvml.h: nvmlReturn_t
_CODES = {
    1: ("NVML not initialised", "NVML 未初始化"), 2: ("invalid argument", "参数无效"), 3: ("not supported", "不支持"),
    4: ("not permitted", "没有权限"), 6: ("not found", "未找到"), 7: ("answer too long", "应答过长"),
    8: ("power cable missing", "缺少供电线"),
    9: ("driver not loaded", "驱动未加载"), 10: ("timed out", "超时"), 11: ("interrupt problem", "中断故障"),
    12: ("NVML library not found", "找不到 NVML 库"), 13: ("this driver has no such function", "此驱动没有该功能"),
    14: ("corrupt InfoROM", "InfoROM 损坏"), 15: ("GPU is lost", "GPU 已丢失"), 16: ("GPU requires reset", "GPU 需要复位"),
    17: ("operating system refused", "操作系统拒绝"), 18: ("driver/library version mismatch", "驱动与库版本不一致"),
    19: ("in use", "被占用"),
    20: ("out of memory", "内存不足"), 21: ("no data", "没有数据"), 27: ("not ready", "未就绪"), 28: ("GPU not found", "找不到 GPU"),
    29: ("invalid state", "状态无效"), 999: ("unknown error", "未知错误"),
}  # fmt: skip
NOTHING = "-"


def word(name: str, lang: str, **values: object) -> str:
    """A phrase, filled."""
    return _WORDS[name][lang == "zh"].format(**values)


def counted(name: str, number: int, lang: str) -> str:
    """A phrase about so many things."""
    return word(f"{name}_1" if number == 1 else name, lang, count=number)


def code(number: int | None, lang: str) -> str:
    """What an NVML code means."""
    return _CODES[number][lang == "zh"] if number in _CODES else f"NVML {number}" if number is not None else NOTHING


def span(seconds: float, lang: str) -> str:
    """A length of time."""
    if seconds < 120:
        return word("seconds", lang, count=f"{seconds:.1f}" if seconds < 0.95 else round(seconds))
    return word("minutes", lang, count=round(seconds / 60)) if seconds < 7200 else word("hours", lang, count=round(seconds / 3600))


def short(name: str | None, width: int = 14) -> str:
    """A card's name without what all cards are called."""
    told = name or NOTHING
    for noise in ("NVIDIA ", "GeForce ", "Tesla ", "Quadro ", " Generation", " Laptop GPU", " HBM3e", " HBM3", " HBM2e"):
        told = told.replace(noise, "")
    return told if len(told) <= width else told[: width - 1] + "…"


def gib(mib: int | None) -> str:
    """MiB as GiB, four characters at most below 1000."""
    return NOTHING if mib is None else f"{mib / 1024:.1f}" if mib < 102_349 else f"{mib / 1024:.0f}"


def size(mib: int | None) -> str:
    """MiB with a unit, at most five characters."""
    if mib is None:
        return NOTHING
    return (
        f"{mib}M"
        if mib < 1000
        else f"{mib / 1024:.1f}G"
        if mib < 102_349
        else f"{mib / 1024:.0f}G"
        if mib < 1 << 20
        else f"{mib / (1 << 20):.1f}T"
    )


def of(value: object, limit: object, unit: str = "") -> str:
    """ "66/87": a figure and its limit; no limit is told where nobody knows one."""
    return f"{NOTHING if value is None else value}{f'/{limit}' if limit is not None else ''}{unit}"


def watts(milliwatts: int | None) -> int | None:
    """mW as W."""
    return None if milliwatts is None else round(milliwatts / 1000)


def figures(card: Card) -> dict[str, str]:
    """The cells of a card that answers, by the names of _WORDS."""
    util, share = card.value("util"), card.number("mem_total")
    gen, width = card.number("pcie_gen"), card.number("pcie_width")
    ecc = card.value("ecc")
    return {
        "util": NOTHING if util is None else f"{util}%",
        "memory": of(gib(card.value("mem_used")), gib(share) if share is not None else None),
        "temp": of(card.value("temp"), card.limit),
        "power": of(watts(card.value("power")), watts(card.number("power_limit"))),
        "clock": NOTHING if card.value("sm_clock") is None else str(card.value("sm_clock")),
        "pcie": NOTHING if gen is None and width is None else f"{NOTHING if gen is None else gen}x{NOTHING if width is None else width}",
        "ecc": NOTHING if ecc is None else str(ecc) if ecc < 1000 else ">999",
        "xid": NOTHING if card.xids is None else ",".join(map(str, list(card.xids)[-1:])) + "+" * (len(card.xids) > 1) or "0",
    }


def held(card: Card, lang: str) -> str:
    """Why its clocks are held down; "-" where nobody told."""
    if card.value("reasons") is None:
        return NOTHING
    return ("、" if lang == "zh" else ", ").join(word(name, lang) for name in card.held()[:2])


def condition(card: Card, lang: str) -> str:
    """Why a card does not answer."""
    because = word(f"{card.condition}_why", lang) if card.condition in ("hung", "gone") else code(card.code, lang)
    told = word(card.condition, lang)
    return told if because in (NOTHING, told) else f"{told}{colon(lang)}{because}"


def headline(finding: Finding, lang: str, title: str | None = None) -> str:
    """ "input-pipeline-bound (likely): the title"."""
    told = finding.text(lang).title if title is None else title
    return f"{finding.slug}{bracketed(certainty(finding.certainty, lang), lang)}{colon(lang)}{told}"


def verdict(card: Card, lang: str) -> str:
    """The first finding of a card in a line, else what is plain without one."""
    if card.findings:
        return headline(card.findings[0], lang)
    return unjudged(card, lang)


def unjudged(card: Card, lang: str) -> str:
    """What is plain of a card without a finding."""
    if card.condition != "ok":
        return condition(card, lang)
    if not card.programs and "processes" in card.why:
        return word("free_hidden", lang, because=code(card.why["processes"], lang))
    if card.unexplained is not None:
        return word("no_verdict", lang, because=card.unexplained.zh if lang == "zh" else card.unexplained.en)
    return word("no_verdict", lang, because=word("little", lang)) if card.programs or card.value("util") else word("free", lang)


def colour(card: Card) -> str:
    """red, yellow, green or dim: how a card's row is told."""
    worst = max((f.weight for f in card.findings), default=Severity.NOTE)
    if card.condition in ("lost", "hung", "error", "gone") or worst is Severity.ERROR:
        return "red"
    if card.condition != "ok" or worst is Severity.WARNING:
        return "yellow"
    return "green" if card.findings else "dim"


def what(program: Program) -> str:
    """Its job or container, and its command without folders."""
    return " ".join(filter(None, [program.job or program.container, short_command(program.command, 200)])) or NOTHING


def cores(number: float | None) -> str:
    """Cores as percent of one core, as top(1) has it."""
    return NOTHING if number is None else f"{number * 100:.0f}%"


def title(view: View, lang: str, more: Sequence[str] = ()) -> str:
    """How many GPUs, what is to be said besides, which driver."""
    parts = [counted("gpus", len(view.cards), lang) if view.cards else word("no_gpus" if view.up else "gpus_unknown", lang)]
    silent = sum(card.condition != "ok" for card in view.cards)
    parts += [word("no_answer", lang, count=silent, all=len(view.cards))] if silent else []
    parts += [*more, *([word("demo", lang)] if view.demo else [])]
    parts += [word("driver", lang, version=view.driver)] if view.driver else []
    parts += [f"CUDA {view.cuda // 1000}.{view.cuda % 1000 // 10}"] if view.cuda else []
    return " | ".join(parts)


def fit(text: str, width: int, right: bool = False) -> str:
    """The text in exactly so many columns: padded, or cut with an ellipsis."""
    text = cut(text, width, "…") if width > 0 else ""
    pad = " " * (width - width_of(text))
    return pad + text if right else text + pad
