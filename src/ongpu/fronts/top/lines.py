"""The lines of the live view: bars, graphs, rows of GPUs and processes, fitted to the width."""

from collections.abc import Iterator, Sequence

from ongpu.fronts.top.spoken import say
from ongpu.model import Certainty, Severity
from ongpu.report.layout import width_of
from ongpu.report.recipes import commands
from ongpu.report.top import words
from ongpu.report.top.view import OK, Card, Program, View
from ongpu.report.top.words import NOTHING, fit, word
from ongpu.report.words import risk

Part = tuple[str, str]
EIGHTHS = " ▁▂▃▄▅▆▇█"
WIDE, WIDER = 100, 124  # columns from which more is shown


def bar(share: float | None, width: int) -> str:
    """A share of 1 as a bar; blank where it is not told."""
    if share is None:
        return " " * width
    full = min(max(share, 0.0), 1.0) * width
    return ("█" * int(full) + ("▌" if full - int(full) >= 0.5 else "")).ljust(width, "·")


def graph(values: Sequence[float | None], width: int, height: int) -> list[str]:
    """Shares of 1 as a graph, the newest at the right; a gap stays a gap."""
    kept = list(values)[-width:]
    lines = []
    for level in reversed(range(height)):
        line = ""
        for value in kept:
            if value is None:
                line += " "
                continue
            filled = min(max(value, 0.0), 1.0) * height * 8 - level * 8
            line += EIGHTHS[min(max(round(filled), 1 if level == 0 else 0), 8)]
        lines.append(line.rjust(width))
    return lines


def thinned(values: Sequence[float | None], width: int) -> list[float | None]:
    """At most `width` values: the average of each stretch, none where nothing was told in it."""
    size = max(-(-len(values) // width), 1) if width > 0 else 1
    found: list[float | None] = []
    for start in range(0, len(values), size):
        told = [v for v in values[start : start + size] if v is not None]
        found.append(sum(told) / len(told) if told else None)
    return found


def mark(card: Card) -> Part:
    """x: a fault, !: works badly, ?: not known. Told without colours too."""
    shade = words.colour(card)
    if card.condition not in (OK, "denied", "unknown") or shade == "red":
        return "x", "red"
    return ("?", "yellow") if card.condition != OK else ("!", "yellow") if shade == "yellow" else (" ", "")


def gpu_columns(width: int) -> list[tuple[str, int]]:
    """The columns of a GPU's row and their widths; "verdict" takes what is left."""
    size = 10 if width >= WIDE else 5
    columns = [("index", 3), ("name", 14 if width >= WIDE else 9), ("util", size + 5), ("memory", size + 5)]
    columns += [("temp", 6), ("power", 7), ("clock", 4)]
    if width >= WIDER:
        columns += [("mem", 9), ("pcie", 4), ("ecc", 4), ("xid", 5), ("held", 12)]
    used = 2 + sum(cells + 1 for _, cells in columns)
    return [*columns, ("verdict", max(width - used, 8))]


_HEADS = {"index": "gpu", "mem": "memory"}


def gpu_header(width: int, lang: str) -> str:
    """The titles over the GPUs' rows."""
    left = ("index", "name", "util", "memory", "held", "verdict")
    cells = [fit(_head(name, lang), size, right=name not in left) for name, size in gpu_columns(width)]
    return fit("  " + " ".join(cells), width)


def _head(name: str, lang: str) -> str:
    return say("memory", lang) if name == "memory" else word(_HEADS.get(name, name), lang)


def gpu_line(card: Card, width: int, lang: str) -> tuple[Part, ...]:
    """A GPU's row."""
    told, columns = words.figures(card), dict(gpu_columns(width))
    head: list[Part] = [mark(card), (" " + fit(str(card.index), columns["index"]) + " ", "bold")]
    head.append((fit(words.short(card.name, columns["name"]), columns["name"]) + " ", ""))
    if card.condition != OK:
        room = width - sum(width_of(text) for text, _ in head)
        return (*head, (fit(words.condition(card, lang), room), words.colour(card)))
    size = columns["util"] - 5
    share, util = card.memory_share(), card.value("util")
    parts = [*head]
    parts += [(bar(None if util is None else util / 100, size), "cyan"), (told["util"].rjust(5) + " ", "")]
    parts += [(bar(share, size), "cyan"), ((NOTHING if share is None else f"{share:.0%}").rjust(5) + " ", "")]
    parts.append((told["temp"].rjust(columns["temp"]) + " ", "red" if card.too_hot() else ""))
    parts += [
        (told["power"].rjust(columns["power"]) + " ", ""),
        (told["clock"].rjust(columns["clock"]) + " ", "yellow" if _slowed(card) else ""),
    ]
    if "mem" in columns:
        parts.append((told["memory"].rjust(columns["mem"]) + " ", ""))
        parts.append((told["pcie"].rjust(columns["pcie"]) + " ", "yellow" if card.narrow() else ""))
        parts.append((told["ecc"].rjust(columns["ecc"]) + " ", "red" if card.value("ecc") else ""))
        parts.append((fit(told["xid"], columns["xid"], right=True) + " ", ""))
        parts.append((fit(words.held(card, lang), columns["held"]) + " ", "yellow" if _slowed(card) else ""))
    return (*parts, (fit(verdict(card, columns["verdict"], lang), columns["verdict"]), words.colour(card)))


def _slowed(card: Card) -> bool:
    return bool({"power-brake", "heat-hw", "heat", "hw-slowdown"} & {*card.held()})


def verdict(card: Card, width: int, lang: str) -> str:
    """The first finding: its slug, and its words where there is room."""
    if not card.findings:
        return words.unjudged(card, lang)
    first = card.findings[0]
    if width >= 50:
        return words.headline(first, lang)
    return first.slug + ("?" if first.certainty is Certainty.POSSIBLE else "")


PROGRAM = (("gpu", 3), ("pid", 7), ("user", 8), ("sm", 4), ("gpu_mem", 7), ("host_mem", 6), ("cpu", 5), ("state", 5))


def program_header(width: int, lang: str) -> str:
    """The titles over the processes' rows."""
    left = ("gpu", "user", "state")
    cells = [fit(word(name, lang), size, right=name not in left) for name, size in PROGRAM]
    return fit("  " + " ".join([*cells, word("job", lang)]), width)


def program_line(program: Program, index: int, width: int, lang: str) -> tuple[Part, ...]:
    """A process's row."""
    sizes = dict(PROGRAM)
    user = program.user or (str(program.uid) if program.uid is not None else "?" if not program.visible else NOTHING)
    cells = [
        fit(str(index), sizes["gpu"]), str(program.pid).rjust(sizes["pid"]), fit(user, sizes["user"]),
        (NOTHING if program.sm is None else f"{program.sm}%").rjust(sizes["sm"]), words.size(program.mem).rjust(sizes["gpu_mem"]),
        words.size(program.rss).rjust(sizes["host_mem"]), words.cores(program.cpu).rjust(sizes["cpu"]),
        fit(program.state or NOTHING, sizes["state"]),
    ]  # fmt: skip
    text = "  " + " ".join(cells) + " "
    rest = words.what(program) if program.visible else word("invisible", lang)
    room = max(width - width_of(text), 0)
    return ((text, ""), (fit(rest, room), "" if program.visible else "yellow"))


def child_line(child: tuple[int, str, float | None, str], last: bool, width: int) -> tuple[Part, ...]:
    """A process below one on a GPU."""
    sizes = dict(PROGRAM)
    pid, name, cpu, state = child
    text = "  " + " " * (sizes["gpu"] + 1) + str(pid).rjust(sizes["pid"]) + " "
    text += " " * (sizes["user"] + sizes["sm"] + sizes["gpu_mem"] + sizes["host_mem"] + 4)
    text += words.cores(cpu).rjust(sizes["cpu"]) + " " + fit(state, sizes["state"]) + " "
    return ((text, ""), (fit(f"{'└─' if last else '├─'} {name}", max(width - len(text), 0)), "dim"))


def told(card: Card, lang: str) -> Iterator[Part]:
    """The verdicts of a GPU, whole: what, why, fix."""
    if card.condition != OK or not card.findings:
        yield words.unjudged(card, lang), words.colour(card)
    for finding in card.findings:
        text = finding.text(lang)
        shade = {Severity.ERROR: "red", Severity.WARNING: "yellow"}.get(finding.weight, "green")
        yield words.headline(finding, lang), shade
        yield f"{say('why', lang)}: {text.why}" if text.why else "", ""
        yield f"{say('fix', lang)}: {text.fix}" if text.fix else "", ""


def whole(card: Card, program: Program | None, view: View, lang: str) -> Iterator[Part]:
    """All that is known of a GPU, or of a process and its GPU."""
    yield f"GPU {card.index}  {card.name or NOTHING}  {card.bus or ''}", "bold"
    yield card.uuid or NOTHING, "dim"
    if program:
        user = program.user or program.uid or NOTHING
        yield f"{word('pid', lang)} {program.pid}  {user}  {program.job or ''}  {program.container or ''}".rstrip(), "bold"
        yield program.command or (NOTHING if program.visible else word("invisible", lang)), ""
        read = NOTHING if program.read is None else f"{program.read / 1e6:.1f} MB/s"
        cells = (
            ("gpu_mem", words.size(program.mem)), ("host_mem", words.size(program.rss)), ("cpu", words.cores(program.cpu)),
            ("busiest", words.cores(program.main)), ("state", program.state or NOTHING), ("read", read),
        )  # fmt: skip
        yield "  ".join(f"{say('busiest', lang) if name == 'busiest' else word(name, lang)} {told}" for name, told in cells), ""
        for pid, name, cpu, state in program.children:
            yield f"  {pid}  {name}  {words.cores(cpu)}  {state}", "dim"
    yield "", ""
    for finding in card.findings:
        text = finding.text(lang)
        shade = {Severity.ERROR: "red", Severity.WARNING: "yellow"}.get(finding.weight, "green")
        yield words.headline(finding, lang), shade
        yield text.why, ""
        yield f"{say('fix', lang)}: {text.fix}" if text.fix else "", ""
        for command in commands(finding, view.report, lang) if view.report else ():
            yield f"  $ {command.run}   [{risk(command.risk, lang)}]", "cyan"
        for ref in finding.refs[:6]:
            yield f"  {say('seen', lang)} {ref.source}: {ref.quote[:160]}", "dim"
        yield "", ""
    if not card.findings:
        yield words.unjudged(card, lang), words.colour(card)
    yield "", ""
    if card.condition == OK:
        told = words.figures(card)
        names = ("util", "memory", "temp", "power", "clock", "pcie", "ecc", "xid")
        yield "  ".join(f"{_head(name, lang) if name != 'memory' else word(name, lang)} {told[name]}" for name in names), ""
        yield f"{word('held', lang)}: {words.held(card, lang) or NOTHING}", ""
        tx, rx = card.value("pcie_tx"), card.value("pcie_rx")
        yield f"PCIe tx {NOTHING if tx is None else f'{tx / 1000:.0f} MB/s'}  rx {NOTHING if rx is None else f'{rx / 1000:.0f} MB/s'}", ""
        for column, code in card.why.items():
            yield f"- {column}: {words.code(code, lang)}", "dim"
