"""What `ongpu.check` and the diagnosis of an exception show beside their findings: where the objects sit, and the memory."""

from collections.abc import Iterable
from html import escape

from ongpu.facts.objects import CardMemory, Objects
from ongpu.facts.operands import Operands
from ongpu.facts.system import Processes
from ongpu.lazy import replace
from ongpu.model import Report, Verdict
from ongpu.report import words
from ongpu.report.as_html import article
from ongpu.report.layout import width_of, wrap
from ongpu.report.words import word

_WORDS = {
    "parameter": ("parameters", "参数"), "buffer": ("buffers", "buffer"), "gradient": ("gradients", "梯度"),
    "optimizer": ("optimizer state", "优化器状态"), "input": ("inputs", "输入"), "plain": ("mere attributes", "普通属性"),
    "unregistered": ("not registered", "未注册"),
    "owner": ("owner", "归属"), "device": ("device", "设备"), "dtype": ("dtype", "类型"),
    "tensors": ("tensors", "张量数"), "memory": ("memory", "内存"),
    "training": ("in training mode", "训练模式"), "evaluation": ("in evaluation mode", "评估模式"),
    "frozen": ("{count} of {all} parameters frozen", "{all} 个参数中有 {count} 个冻结"),
    "no model": ("no PyTorch model", "没有 PyTorch 模型"),
    "holds": ("{name} holds {held} of the model's parameters", "{name} 持有模型的 {held} 个参数"),
    "unlooked": ("not looked at: {what} ({framework})", "未检查：{what}（{framework}）"),
    "left off": ("{count} more tensors were not looked at", "另有 {count} 个张量未检查"),
    "card": (
        "{device}: PyTorch holds {allocated} (peak {peak}), reserves {reserved}",
        "{device}：PyTorch 占用 {allocated}（峰值 {peak}），保留 {reserved}",
    ),
    "of": (" of {total} ({name})", "，共 {total}（{name}）"),
    "held": ("{device}: {owners}", "{device}：{owners}"),
    "other": ("GPU {gpu}: process {pid} ({name}) holds {memory} MiB", "GPU {gpu}：进程 {pid}（{name}）占用 {memory} MiB"),
}  # fmt: skip
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STYLE = (
    ".ongpu{font-size:14px;line-height:1.45}.ongpu table{border-collapse:collapse}.ongpu td,.ongpu th{padding:2px 10px;text-align:left}"
    ".ongpu article{border:1px solid #8884;border-left:4px solid #b26a00;border-radius:6px;padding:.3rem .8rem;margin:.6rem 0}"
    ".ongpu article.error{border-left-color:#c62828}.ongpu article.note{border-left-color:#8884}"
    ".ongpu pre{background:#8881;padding:.4rem;white-space:pre-wrap}.ongpu h2{font-size:1.05em;margin:.3rem 0}"
)


def _say(phrase: str, lang: str, /, **values: object) -> str:
    return _WORDS[phrase][lang == "zh"].format(**values)


def size(count: int | None) -> str:
    """Bytes as a person reads them; "?" where nobody said."""
    if count is None:
        return "?"
    value = float(count)
    for unit in _UNITS[:-1]:
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def _head(objects: Objects, lang: str) -> str:
    parts = [objects.model or _say("no model", lang)]
    if objects.training is not None:
        parts.append(_say("training" if objects.training else "evaluation", lang))
    weights = objects.of("parameter")
    frozen = sum(not p.trainable for p in weights)
    if frozen:
        parts.append(_say("frozen", lang, count=frozen, all=len(weights)))
    if objects.optimizer:
        parts.append(_say("holds", lang, name=objects.optimizer.name, held=objects.optimizer.held - objects.optimizer.strangers))
    return ("，" if lang == "zh" else ", ").join(parts)


def _table(objects: Objects, lang: str) -> list[tuple[str, ...]]:
    names = [_say(name, lang) for name in ("owner", "device", "dtype", "tensors", "memory")]
    told = [row for row in objects.table() if row[0] in _WORDS]
    rows = [(_say(owner, lang), device, dtype, str(count), size(total)) for owner, device, dtype, count, total in told]
    return [tuple(names), *rows] if rows else []


def _aside(objects: Objects, lang: str) -> list[str]:
    told = [_say("unlooked", lang, what=what, framework=framework) for what, framework in objects.unlooked]
    if objects.left_off:
        told.append(_say("left off", lang, count=objects.left_off))
    return told + memory(objects.memory, None, lang)


def memory(cards: Iterable[CardMemory], processes: Processes | None, lang: str) -> list[str]:
    """A line for each GPU on which PyTorch holds memory, and for each other process that is known to hold some."""
    told = []
    for card in cards:
        if card.reserved:
            figures = {"allocated": size(card.allocated), "peak": size(card.peak), "reserved": size(card.reserved)}
            line = _say("card", lang, device=card.device, **figures)
            told.append(line + (_say("of", lang, total=size(card.total), name=card.name) if card.total else ""))
    for process in (processes.processes if processes else ())[:8]:
        if process.memory and process.kind != "G":
            told.append(_say("other", lang, gpu=process.gpu, pid=process.pid, name=process.name or "?", memory=process.memory))
    return told


def live(operands: Operands | None, processes: Processes | None, lang: str) -> list[str]:
    """The memory when an exception was raised: PyTorch's own count, what the known models and optimizers hold of it, others."""
    told = memory(operands.memory if operands else (), None, lang)
    for device in dict.fromkeys(device for device, _, _ in operands.held) if operands else ():
        parts = [f"{_say(owner, lang)} {size(n)}" for d, owner, n in operands.held if d == device and owner in _WORDS] if operands else []
        told.append(_say("held", lang, device=device, owners=("，" if lang == "zh" else ", ").join(parts)))
    return told + memory((), processes, lang)


def text(report: Report, lang: str, *, width: int = 80, colour: bool = False) -> str:
    """Where the objects sit, as a table, then what is wrong with it."""
    from ongpu.report import as_text

    lines: list[str] = []
    objects = report.fact(Objects)
    if objects:
        lines += wrap(_head(objects, lang), width)
        rows = _table(objects, lang)
        pads = [max(width_of(row[n]) for row in rows) for n in range(5)] if rows else []
        for row in rows:
            cells = (cell + " " * (pad - width_of(cell)) for cell, pad in zip(row, pads, strict=True))
            lines.append(("  " + "  ".join(cells)).rstrip())
        lines += [*_aside(objects, lang), ""]
    found = as_text.render(replace(report, hidden=()), lang, width=width, colour=colour, links=False)
    if report.verdict is Verdict.CRASHED:
        lines += [word("not_read", lang, source=u.source, because=u.because) for u in report.unread]
    return "\n".join([*lines, found] if found else lines)


def html(report: Report, lang: str) -> str:
    """The same, as a piece of a page that leaves the rest of the page alone."""
    body = ""
    objects = report.fact(Objects)
    if objects:
        body += f"<p><b>{escape(_head(objects, lang))}</b></p>"
        head, *rows = _table(objects, lang) or [()]
        cells = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        body += "<table><tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + f"</tr>{cells}</table>" if rows else ""
        body += "".join(f"<p>{escape(line)}</p>" for line in _aside(objects, lang))
    body += "".join(article(finding, report, lang) for finding in report.findings)
    if report.verdict in (Verdict.CLEAR, Verdict.UNKNOWN):
        body += f"<p>{escape(word(report.verdict.value, lang))}</p>"
    for outcome in report.unknown:
        body += f"<p>{escape(word('could_not_tell', lang, what=words.because(outcome.because, lang)))}</p>"
    body += "".join(f"<p>{escape(word('not_read', lang, source=u.source, because=u.because))}</p>" for u in report.unread)
    return f'<div class="ongpu"><style>{_STYLE}</style>{body}</div>'
