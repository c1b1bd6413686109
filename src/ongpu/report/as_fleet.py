"""Many machines for a terminal: the worst first, the healthy as a count."""

from ongpu.facts.fleet import Fleet, Node
from ongpu.model import Report
from ongpu.report import as_text
from ongpu.report.layout import cut, paint, width_of, wrap

MOST = 20  # nodes that are listed without --all
_TEXTS = {
    "sum": (
        "{answered} of {nodes} nodes answered, {present} GPUs{want}",
        "{nodes} 个节点中 {answered} 个有应答，共 {present} 块 GPU{want}",
    ),
    "want": (" of {want} expected", "（应有 {want} 块）"),
    "silent": ("no answer: {problem}", "无应答：{problem}"),
    "healthy": ("{count} nodes without a fault are not listed; --all lists them", "另有 {count} 个无故障节点未列出；用 --all 查看"),
    "more": ("{count} more nodes with faults; --all lists them", "另有 {count} 个有故障的节点；用 --all 查看"),
    "idle": (
        "held but idle: {hours} GPU hours in 7 days; most on {names}",
        "占用却空闲：7 天内 {hours} GPU 小时；最多的节点：{names}",
    ),
    "node": ("NODE", "节点"), "gpus": ("GPUS", "GPU"), "busy": ("BUSY", "利用率"), "temp": ("MAX C", "最高 C"),
    "driver": ("DRIVER", "驱动"), "fault": ("FAULT", "故障"),
}  # fmt: skip
_ORDER = {"error": 0, "warning": 1, "note": 3, "": 3}


def _say(name: str, lang: str, **values: object) -> str:
    return _TEXTS[name][lang == "zh"].format(**values)


def fleet_of(report: Report) -> Fleet:
    """The fact that the report is about."""
    return next(fact for fact in report.facts if isinstance(fact, Fleet))


def worst_first(fleet: Fleet) -> list[Node]:
    """Nodes with errors, then those that gave no answer, then warnings, then the others; in each by what is missing."""
    usual = fleet.usual

    def rank(node: Node) -> tuple[int, int, str]:
        missing = max(node.missing(usual), len(node.lost))
        grade = 1 if not node.answered else 0 if missing else _ORDER[node.worst] + (node.worst == "warning")
        return (grade, -missing, node.name)

    return sorted(fleet.nodes, key=rank)


def _faulty(node: Node, usual: int | None) -> bool:
    return not node.answered or bool(node.missing(usual) or node.lost) or node.worst in ("error", "warning")


def text(report: Report, lang: str, everything: bool, *, width: int, colour: bool) -> str:
    """The sum, the patterns with their likely cause and what to do, then the nodes."""
    fleet = fleet_of(report)
    usual = fleet.usual
    want = sum(n for node in fleet.nodes if (n := node.expected if node.expected is not None else usual) is not None)
    present = sum(node.present or 0 for node in fleet.nodes) if any(node.present is not None for node in fleet.nodes) else "?"
    expected = _say("want", lang, want=want) if want else ""
    head = _say("sum", lang, answered=len(fleet.answered), nodes=len(fleet.nodes), present=present, want=expected)
    ordered = worst_first(fleet)
    faulty = [node for node in ordered if _faulty(node, usual)]
    silent = [node for node in faulty[MOST:] if not node.answered][:MOST]  # what is not known is not to be left out
    listed = ordered if everything else faulty[:MOST] + silent
    lines = [head, "", as_text.render(report, lang, everything, width=width, colour=colour, links=False), ""]
    if listed:
        lines += [*_table(listed, usual, lang, width, colour)]
    if not everything and len(faulty) > len(listed):
        lines.append(_say("more", lang, count=len(faulty) - len(listed)))
    if not everything and len(ordered) > len(faulty):
        lines.append(_say("healthy", lang, count=len(ordered) - len(faulty)))
    idle = sorted((node for node in fleet.nodes if node.idle_hours), key=lambda node: -(node.idle_hours or 0))
    if idle:
        names = ", ".join(f"{node.name} ({node.idle_hours:.0f} h)" for node in idle[:5])
        lines += wrap(_say("idle", lang, hours=f"{sum(node.idle_hours or 0 for node in idle):.0f}", names=names), width)
    return "\n".join(lines)


def _cells(node: Node, usual: int | None, lang: str) -> list[str]:
    if not node.answered:
        return [node.name, "?", "?", "?", "?", _say("silent", lang, problem=node.problem)]
    want = node.expected if node.expected is not None else usual
    count = "?" if node.present is None else f"{node.present}" if want is None else f"{node.present}/{want}"
    faults = ", ".join(dict.fromkeys(f.slug for f in node.faults if f.severity != "note")) or "-"
    return [
        node.name, count, "-" if node.busy is None else f"{node.busy:.0f} %", "-" if node.hottest is None else str(node.hottest),
        node.driver or "-", faults,
    ]  # fmt: skip


def _table(nodes: list[Node], usual: int | None, lang: str, width: int, colour: bool) -> list[str]:
    head = [_say(name, lang) for name in ("node", "gpus", "busy", "temp", "driver", "fault")]
    rows = [_cells(node, usual, lang) for node in nodes]
    wide = [max(width_of(row[n]) for row in [head, *rows]) for n in range(5)]
    wide[0] = min(wide[0], max(12, width - sum(wide[1:]) - 30))
    lines = [paint(_line(head, wide, width), "bold", colour)]
    for node, row in zip(nodes, rows, strict=True):
        bad = node.worst == "error" or node.missing(usual) or node.lost
        line = _line(row, wide, width)
        lines.append(paint(line, "red" if bad else "yellow", colour) if bad or _faulty(node, usual) else line)
    return lines


def _line(cells: list[str], wide: list[int], width: int) -> str:
    shown = [cut(cell, room) for cell, room in zip(cells, wide, strict=False)]
    line = "  ".join(cell + " " * (room - width_of(cell)) for cell, room in zip(shown, wide, strict=False))
    return f"{line}  {cut(cells[-1], max(10, width - width_of(line) - 2))}".rstrip()
