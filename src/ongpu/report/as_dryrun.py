"""The answer of `ongpu dryrun`: what ran where, the memory, the batch, the waits, the loader, the ranks; for a terminal or as Markdown."""

from collections.abc import Iterable, Iterator

from ongpu.facts.dryrun import HEAVY, DryRun
from ongpu.facts.dryrun_parts import Aside, DataLoader, Place, size
from ongpu.knowledge import cards
from ongpu.lazy import dataclass
from ongpu.report.dryrun_words import NOTES, note, word, work
from ongpu.report.layout import paint, width_of, wrap

MOST = 6  # rows of one table in the terminal; --all shows all


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of a label and what is told of it, under a title ("" for the first)."""

    title: str
    rows: tuple[tuple[str, str], ...]


def sections(run: DryRun, lang: str, everything: bool = False) -> list[Section]:
    """All that is told, in order; sections without rows are left out."""
    most = 1000 if everything else MOST
    found = [
        Section("", tuple(_course(run, lang))),
        Section(word("memory", lang, total=size(run.card.total)), tuple(_memory(run, lang, most))),
        Section(word("batch", lang), tuple(_batch(run, lang))),
        Section(word("savings", lang), tuple(_savings(run, lang))),
        Section(word("syncs", lang), tuple(_syncs(run, lang, most))),
        Section(word("copies", lang), tuple(_copies(run, lang, most))),
        Section(word("loaders", lang), tuple(_loader(loader, lang) for loader in run.loaders[:most])),
        Section(word("accumulation", lang), tuple(_accumulation(run, lang))),
        Section(word("ranks", lang), tuple(_ranks(run, lang))),
        Section(word("doubts", lang), tuple(_doubts(run, lang, most))),
    ]
    return [section for section in found if section.rows]


def heading(run: DryRun, lang: str) -> str:
    """The script, the card, and that no GPU was used."""
    return word("heading", lang, script=run.script or "?", card=run.card.name or "?")


def text(run: DryRun, lang: str, everything: bool = False, *, width: int = 80, colour: bool = False) -> str:
    """For a terminal, at most `width` columns."""
    lines = [*(paint(line, "bold", colour) for line in wrap(heading(run, lang), width)), ""]
    for section in sections(run, lang, everything):
        if section.title:
            lines.append(paint(section.title, "bold", colour))
        pad = min(max(width_of(label) for label, _ in section.rows), 22)
        for label, told in section.rows:
            shown = wrap(told, width - pad - 4) or [""]
            first, rest = shown[0], shown[1:]
            lines.append(f"  {paint(label + ' ' * (pad - width_of(label)), 'dim', colour)}  {first}".rstrip())
            lines += [" " * (pad + 4) + line for line in rest]
        lines.append("")
    return "\n".join(lines)


def markdown(run: DryRun, lang: str, everything: bool = False) -> str:
    """The same as Markdown tables."""
    lines = [f"## {heading(run, lang)}", ""]
    for section in sections(run, lang, everything):
        lines += [f"### {section.title}", ""] if section.title else []
        lines += ["| | |", "|---|---|", *(f"| {_cell(label)} | {_cell(told)} |" for label, told in section.rows), ""]
    return "\n".join(lines)


def _cell(told: str) -> str:
    return told.replace("|", "\\|").replace("\n", "<br>")


def _at(place: Place | None, most: int = 60) -> str:
    """file:line, and the line's own words."""
    if place is None:
        return "?"
    code = place.text if len(place.text) <= most else place.text[: most - 4] + " ..."
    return f"{place.file.rpartition('/')[2]}:{place.line} | {code}".rstrip(" |")


def _course(run: DryRun, lang: str) -> Iterator[tuple[str, str]]:
    """Did it run, what reached the GPU, what ran on the CPU."""
    name = "batches-one" if run.batches == 1 else "batches"
    batches = word(name, lang, batches=run.batches, rows=run.batch_size or "?") if run.batches else ""
    counts = word("counts-one" if run.steps == 1 else "counts", lang, steps=run.steps, batches=batches, seconds=f"{run.seconds:.1f}")
    outcome = f"stopped-{run.stopped_by}" if run.outcome == "stopped" and run.stopped_by else run.outcome
    told = word(f"outcome-{outcome}" if f"outcome-{outcome}" in NOTES else "outcome-stopped", lang)
    step = run.memory.oom.step if run.ran_out and run.memory.oom else None
    if step is not None:
        told = word("outcome-oom-further" if run.steps > step else "outcome-oom", lang, step=step + 1)
    elif run.error and run.error.kind == "arguments":
        told = word("outcome-arguments", lang)
    yield word("run", lang), f"{told}{counts}"
    if run.missed:
        names = [word("missed-one", lang, part=part.name, line=part.line) for part in run.missed[:MOST]]
        yield word("missed", lang), word("missed-told", lang, names=", ".join(names))
    if run.error:
        yield word("at", lang), _at(run.error.place)
        message = run.error.message.partition(" If reserved but")[0]  # a hint that the findings judge
        yield word("error", lang), f"{run.error.type}: {message}".strip(": ")[:600]
    devices = run.devices
    on, off = "cuda", "cpu"
    parts = [f"{m.class_} ({_millions(m.parameters, lang)})" for m in devices.models[:3] if _where(m.bytes) in (on, "both")]
    there = [o for o in devices.optimizers[:2] if o.steps and o.state_bytes.get(off, 0) <= 4096]  # Adam's step counts lie on the CPU
    parts += [word("optimizer", lang, class_=o.class_) for o in there]
    if any(name.startswith(on) for name in devices.inputs) and not devices.inputs.get(off):
        parts.append(word("data", lang))
    done = work(devices.flop.get(on, 0.0))
    yield "GPU", ", ".join([*parts, done]) if devices.ops.get(on) else word("nothing-gpu", lang)
    parts = [f"{m.class_} ({_millions(m.parameters, lang)})" for m in devices.models[:3] if m.called and _where(m.bytes) in (off, "both")]
    heavy = [w for w in devices.by_line if w.device == off and w.flop >= HEAVY / 100]
    done = work(devices.flop.get(off, 0.0)) if devices.flop.get(off, 0.0) >= HEAVY / 100 else word("nothing-cpu", lang)
    yield "CPU", ", ".join([*parts, done])
    for line in heavy[:3]:
        yield "", f"{work(line.flop)}  {_at(line.place)}"


def _where(bytes_of: object) -> str:
    """cuda, cpu, both, or "" where nothing is held."""
    held = [name.partition(":")[0] for name, count in dict(bytes_of).items() if count]  # type: ignore[call-overload]
    kinds = set(held)
    return "both" if len(kinds) > 1 else next(iter(kinds), "")


def _millions(count: int, lang: str) -> str:
    """"20.1 k parameters"."""
    short = f"{count / 1e3:.1f} k" if count >= 1000 else str(count)
    return word("parameters", lang, number=f"{count / 1e9:.2f} B" if count >= 1e9 else f"{count / 1e6:.1f} M" if count >= 1e5 else short)


def _memory(run: DryRun, lang: str, most: int) -> Iterator[tuple[str, str]]:
    memory, peak = run.memory, run.memory.at_peak
    if not memory.peak_reserved:
        return
    figures = {"allocated": memory.peak_allocated, "reserved": memory.peak_reserved, "context": memory.context, "all": run.needed}
    yield word("peak", lang), word("peak-told", lang, **{name: size(count) for name, count in figures.items()})
    kinds = sorted(((kind, count) for kind, count in peak.by_kind.items() if count), key=lambda pair: -pair[1])
    for kind, count in kinds:
        yield "  " + word(f"kind-{kind}", lang), size(count)
    if peak.place:
        phase = word(f"phase-{peak.phase or 'other'}", lang)
        yield word("set-by", lang), f"{_at(peak.place)}  ({phase})"
    for share in peak.by_line[: most // 2]:
        holder = _at(share.place, 44) if share.place else word(f"kind-{share.kind}", lang)
        yield word("held-by", lang) if share is peak.by_line[0] else "", f"{size(share.bytes)}  {holder}"
    idle = memory.peak_reserved - memory.peak_allocated
    yield word("fragments", lang), word("fragments-told", lang, share=f"{100 * memory.fragmentation:.0f}", idle=size(idle))
    if run.grows:
        yield word("growth", lang), word("growth-told", lang, growth=size(memory.growth or 0))
    yield from _fit(run, lang)


def _fit(run: DryRun, lang: str) -> Iterator[tuple[str, str]]:
    """Whether it fits this card, and the smallest card that it fits; nothing where the run was cut before it could tell."""
    if not (run.ran or run.ran_out or run.steps):
        return  # it ended before it could tell
    fits = not run.ran_out and run.needed <= run.card.total
    yield word("fit", lang), word("fits" if fits else "fits-not", lang, card=run.card.name, left=size(max(0, run.card.total - run.needed)))
    if run.grows:
        left = max(0, run.memory.capacity - run.memory.peak_reserved) // (run.memory.growth or 1)
        yield "", word("fits-a-while", lang, steps=left)
        return
    if run.ran_out and run.needed <= run.card.total:  # it stopped there: what it needs was not seen
        return
    card = cards.smallest(run.needed)
    if card:
        yield word("smallest", lang), f"{card.name} ({size(card.total)})"
    else:
        yield word("smallest", lang), word("smallest-none", lang)


def _batch(run: DryRun, lang: str) -> Iterator[tuple[str, str]]:
    batch = run.batch
    if batch is None:
        return
    if batch.largest is None:
        yield word("largest", lang), word("largest-unknown", lang, why=batch.why or "?")
    else:
        seen = word("verified" if batch.verified else "computed", lang)
        yield word("largest", lang), f"{batch.largest}  ({seen})" if batch.largest else word("largest-none", lang)
    if batch.as_run is not None:
        yield word("as-run", lang), str(batch.as_run)
    if batch.accumulate and batch.accumulate > 1:
        rows = batch.as_run // batch.accumulate if batch.as_run else batch.largest or "?"
        yield word("accumulate", lang), word("accumulate-told", lang, windows=batch.accumulate, rows=rows)
    if batch.reserved_per_sample and batch.reserved_fixed is not None:
        yield word("per-row", lang), word("per-row-told", lang, row=size(batch.reserved_per_sample), fixed=size(batch.reserved_fixed))
    for traced in batch.traced:
        fits = word("fits-short" if traced.fits else "fits-not-short", lang)
        yield word("tried", lang) if traced is batch.traced[0] else "", f"{traced.batch:>6}: {size(traced.peak_reserved)}  {fits}"


def _savings(run: DryRun, lang: str) -> Iterator[tuple[str, str]]:
    for saving in run.savings:
        if saving.failed:
            told = word(f"saving-{saving.change}", lang) if f"saving-{saving.change}" in NOTES else saving.change
            yield word("not-computed", lang), f"{told}: {word(saving.failed, lang)}"
            continue
        if saving.applies is False or not saving.saved or saving.saved <= 0:
            continue
        told = word(f"saving-{saving.change}", lang) if f"saving-{saving.change}" in NOTES else saving.change
        yield size(saving.saved), told


def _rate(run: DryRun, count: int, lang: str) -> str:
    """How often in a step; in all, where it is no whole number of times (a model that is moved once, before the loop)."""
    times = round(count / run.steps) if run.steps else 0
    if times and (count % run.steps == 0 or (abs(count - times * run.steps) <= 1 and count <= 12 * run.steps)):
        return word("per-step", lang, number=times)
    return word("in-all", lang, number=count)


def _syncs(run: DryRun, lang: str, most: int) -> Iterator[tuple[str, str]]:
    for sync in run.syncs[:most]:
        yield _rate(run, sync.count, lang), f"{_at(sync.place)}  [{sync.kind}]"


def _copies(run: DryRun, lang: str, most: int) -> Iterator[tuple[str, str]]:
    moved = {share.place for share in run.memory.at_peak.by_line if share.kind in ("weight", "buffer")}  # once, before the loop
    for copy in [c for c in run.copies if c.place not in moved][:most]:
        how = [word(copy.direction, lang)]
        if copy.direction == "to-gpu":
            how.append(word("pinned" if copy.pinned >= copy.count else "pageable", lang))
            how += [word("non-blocking", lang)] if copy.non_blocking >= copy.count else []
        each = size(copy.bytes / max(1, copy.count))
        yield _rate(run, copy.count, lang), f"{_at(copy.place, 44)}  [{each}; {', '.join(how)}]"


def _loader(loader: DataLoader, lang: str) -> tuple[str, str]:
    settings = [
        f"batch_size={loader.batch_size}", f"num_workers={loader.workers}", f"pin_memory={loader.pin_memory}",
        *([f"persistent_workers={loader.persistent_workers}", f"prefetch_factor={loader.prefetch_factor}"] if loader.workers else []),
        f"drop_last={loader.drop_last}",
    ]  # fmt: skip
    each = loader.seconds / loader.batches * 1000 if loader.batches else 0.0
    wait = word("loader-wait", lang, milliseconds=f"{each:.1f}") if loader.batches else word("loader-unused", lang)
    name = f"{loader.place.file.rpartition('/')[2]}:{loader.place.line}" if loader.place else loader.dataset
    return name, f"{loader.dataset}: {', '.join(settings)}; {wait}"


def _accumulation(run: DryRun, lang: str) -> Iterator[tuple[str, str]]:
    accumulation = run.accumulation
    if max((window.backwards for window in accumulation.windows), default=0) <= 1:
        return
    scaled = {True: "scaled", False: "unscaled", None: "scaled-unknown"}[accumulation.scaled]
    sizes = ", ".join(str(window.backwards) for window in accumulation.windows[:12])
    yield word("windows", lang), word("windows-told", lang, sizes=sizes, scaled=word(scaled, lang))
    if accumulation.dropped:
        yield word("dropped", lang), word("dropped-told", lang, number=accumulation.dropped)


def _ranks(run: DryRun, lang: str) -> Iterator[tuple[str, str]]:
    for rank in run.ranks:
        told = f"{rank.device or word('no-device', lang)}, {word('rank-told', lang, steps=rank.steps, memory=size(rank.peak_reserved))}"
        if rank.error:
            told += f"; {rank.error.type}: {rank.error.message[:120]}"
        yield f"rank {rank.rank}", told
    for mismatch in run.mismatches[:3]:
        told = "; ".join(f"rank {rank}: {collective or '-'}" for rank, collective in mismatch.ranks.items())
        yield word("mismatch", lang, index=mismatch.index), told


def _doubts(run: DryRun, lang: str, most: int) -> Iterator[tuple[str, str]]:
    """What was not followed, what was assumed, what is approximate: always told."""
    for aside in run.unsupported[:most]:
        yield word("not-followed" if aside.went_on is False else "went-on", lang), f"{aside.op}: {aside.why}  {_at(aside.place, 40)}"
    yield from _assumed(run.assumptions, lang, most)
    for index in run.indices[:most]:
        told = f"{index.op}: {index.low}..{index.high}, {word('allowed', lang)} {list(index.allowed)}"
        yield word("indices", lang), f"{told}  {_at(index.place, 40)}"
    for aside in run.notes[: 2 * most]:
        yield word("note", lang), note(aside, lang) + (f"  {_at(aside.place, 40)}" if aside.place else "")
    for file in run.files[:most]:
        done = "refused" if file.refused else "redirected" if file.redirected else "written"
        yield word("file", lang), f"{word(done, lang)}: {file.path}"
    if not run.card.context and run.memory.peak_reserved:
        yield word("note", lang), word("no-context", lang)


def _assumed(assumptions: Iterable[Aside], lang: str, most: int) -> Iterator[tuple[str, str]]:
    for aside in sorted(assumptions, key=lambda a: not a.branched)[:most]:
        branched = word("branched", lang) if aside.branched else ""
        yield word("assumed", lang), f"{aside.what} = {aside.value}{branched}  {_at(aside.place, 44)}"
