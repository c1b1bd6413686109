"""Whether a job may be placed on this machine's GPUs: a decision of a report, for schedulers. Pure.

Only what is certain refuses: findings of the layers below the program, as errors, about the GPUs that the job asks for. What could
not be told refuses only where the administrator is strict.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine
from ongpu.facts.hardware import Gpu, Gpus, Pci
from ongpu.index import names
from ongpu.lazy import dataclass, lazy, replace
from ongpu.model import Certainty, Finding, Layer, Report, Rule, Severity, Source, Verdict

LAYERS = (Layer.HARDWARE, Layer.DRIVER, Layer.LIBRARIES)
# The quick questions that these layers are judged from. Never the framework's probe, nor an interpreter: the job's own is not known.
KINDS = ("nvml", "kernel-log", "driver-state", "device-nodes", "machine-state", "pci-bus", "services", "system-packages")
PRINTED = ("nvidia-smi", "symptoms", "commands")  # read what those ask for
SLOW = ("framework-probe",)
NONE = ("", "-1", "none", "void", "nodevfiles")  # values of CUDA_VISIBLE_DEVICES that show no GPU (NVIDIA's runtime and Slurm set them)
MOST = 1024  # GPUs
_NAME = lazy(r"(?:\d{1,4}(?:-\d{1,4})?|(?:MIG-)?GPU-[0-9a-fA-F-]{4,40}(?:/\d{1,3}/\d{1,3})?|MIG-[0-9a-fA-F-]{4,40})")
_GPU = lazy(r"GPU (\d{1,4})(?!\d)")


class BadName(ValueError):
    """What was asked for names no GPU."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The GPUs that a job asks for, as indices of NVML or UUIDs. names: None: any of the machine; (): none. by: who said so."""

    names: tuple[str, ...] | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the administrator says. refuse: slugs that refuse whatever their layer and severity; override: slugs that never do."""

    strict: bool = False
    refuse: frozenset[str] = frozenset()
    override: frozenset[str] = frozenset()


DEFAULT = Policy()


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job is not placed: a finding, or words of our own (English, Chinese)."""

    slug: str
    words: tuple[str, str]
    finding: Finding | None = None

    def text(self, lang: str) -> str:
        """One line."""
        return " ".join(self.words[lang == "zh"].split())


@dataclass(frozen=True, slots=True)
class Decision:
    """place, and why not; what was overridden; what could not be told."""

    place: bool
    reasons: tuple[Reason, ...] = ()
    overridden: tuple[Reason, ...] = ()
    unknown: tuple[Reason, ...] = ()


def asked(environ: Mapping[str, str], told: str | None = None) -> Asked:
    """Whose GPUs are meant: those told, else those of the Slurm job by their physical index (in a job CUDA_VISIBLE_DEVICES is
    renumbered), else what CUDA would see. Raises BadName for what is told and names no GPU."""
    if told is not None:
        if not told.strip():  # a variable that is not set, say: that is no wish for none
            raise BadName('""')
        return Asked(_named(told, strict=True), "--gpus")
    for name in ("SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"):
        if name in environ:
            return Asked(_named(environ[name], strict=False), name)
    return Asked()


def _named(text: str, strict: bool) -> tuple[str, ...] | None:
    if text.strip().lower() in NONE:
        return ()
    if text.strip().lower() == "all":
        return None
    found: list[str] = []
    for word in text.replace(" ", "").split(","):
        first, _, last = word.partition("-")
        span = first.isdigit() and last.isdigit()
        if not _NAME.fullmatch(word) or (span and int(last) < int(first)):
            if strict:
                raise BadName(word or text)
            break  # CUDA sees those before the first that it does not know
        if span:
            found += [str(index) for index in range(int(first), min(int(last), int(first) + MOST) + 1)]
        else:
            found.append(str(int(word)) if word.isdigit() else word)
    return tuple(dict.fromkeys(found))


def rules(policy: Policy = DEFAULT) -> tuple[Rule, ...]:
    """The rules of the layers, and those that the administrator named; no other is loaded."""
    folders = tuple(f"ongpu.rules.{layer.name.lower()}." for layer in LAYERS)
    found = [import_module(name) for name in names("ongpu.rules") if name.startswith(folders) or slug_of(name) in policy.refuse]
    return tuple(sorted((m.RULE for m in found if hasattr(m, "RULE")), key=lambda rule: (rule.layer, rule.slug)))


def slugs() -> tuple[str, ...]:
    """All that can be found, without loading a rule."""
    return tuple(slug_of(name) for name in names("ongpu.rules"))


def slug_of(module: str) -> str:
    """Of a module of a rule."""
    return module.rpartition(".")[2].replace("_", "-")


def sources(every: Iterable[Source], patience: float, policy: Policy = DEFAULT) -> tuple[Source, ...]:
    """The sources to ask and to read, each question under `patience` seconds. All quick ones where a rule of another layer is named."""
    more = bool(policy.refuse - {rule.slug for rule in rules()})
    kept = (s for s in every if s.kind in KINDS + PRINTED or (more and s.kind not in SLOW))
    return tuple(replace(s, get=tuple(replace(get, limit=min(get.limit, patience)) for get in s.get)) for s in kept)


def decide(report: Report, want: Asked, policy: Policy = DEFAULT) -> Decision:
    """Place or not. A job that asks for no GPU is placed on any machine."""
    if want.names == ():
        return Decision(True)
    mine = _indices(report, want)
    found = [f for f in report.findings if _refuses(f, policy) and _concerns(f, report, mine)]
    if not found or policy.refuse:  # what is certain may be hidden as the consequence of something likely
        found += [f for f in report.hidden if _refuses(f, policy) and _concerns(f, report, mine)]
    if not found and _refused(report):  # that no GPU can be used is certain, though the cause is merely likely
        found = [f for f in (*report.findings, *report.hidden) if _low(f) and f.certainty > Certainty.POSSIBLE][:1]
    reasons = [Reason(f.slug, (_line(f, "en"), _line(f, "zh")), f) for f in found] or _silent(report)
    overridden = tuple(reason for reason in reasons if reason.slug in policy.override)
    reasons = [reason for reason in reasons if reason.slug not in policy.override]
    if not reasons and not overridden:
        reasons += _absent(report, want)
    unknown = tuple(_unknown(report))
    if policy.strict and not overridden:
        reasons += [reason for reason in unknown if not reasons]
    return Decision(not reasons, tuple({(r.slug, r.words): r for r in reasons}.values()), overridden, unknown)


def _refuses(finding: Finding, policy: Policy) -> bool:
    if finding.slug in policy.refuse:
        return finding.certainty > Certainty.POSSIBLE
    return _low(finding) and finding.certainty is Certainty.CERTAIN


def _low(finding: Finding) -> bool:
    """Whether it is an error below the program."""
    return finding.rule is not None and finding.rule.layer in LAYERS and finding.weight is Severity.ERROR


def _refused(report: Report) -> bool:
    """Whether NVML answered, and there is no GPU for anyone. On a Jetson there is no NVML, and CUDA works all the same."""
    driver, machine, listed = report.fact(Driver), report.fact(Machine), report.fact(Gpus)
    if machine and machine.jetson:
        return False
    return bool(driver and driver.nvml and (driver.nvml != "ok" or (listed and not listed.gpus and complete(report))))


def _silent(report: Report) -> list[Reason]:
    """That NVML itself refuses, for which no rule has a cause: no GPU can be asked. Not where it is just not there: CUDA needs none."""
    driver = report.fact(Driver)
    if not _refused(report) or driver is None or driver.nvml in (None, "ok") or "Library Not Found" in driver.nvml:
        return []
    english, chinese = f'The driver\'s management library does not start: "{driver.nvml}"', f"驱动的管理库（NVML）无法启动：“{driver.nvml}”"
    return [Reason("nvml-init-failed", (english, chinese))]


def _line(finding: Finding, lang: str) -> str:
    return finding.text(lang).title


def _unknown(report: Report) -> Iterable[Reason]:
    """What could not be told."""
    if report.verdict in (Verdict.UNKNOWN, Verdict.CRASHED):
        for outcome in report.outcomes:
            if outcome.verdict is Verdict.CRASHED or (outcome.verdict is Verdict.UNKNOWN and outcome.asked):
                words = f"{outcome.rule.slug}: {outcome.because.strip().splitlines()[-1] if outcome.because.strip() else ''}"
                yield Reason("unknown", (f"cannot tell: {words}", f"无法判断：{words}"))
        if not report.unknown:
            yield Reason("unknown", ("nothing shows a GPU that works", "没有任何迹象表明有正常工作的 GPU"))


# --- which GPU is meant


def cards(report: Report) -> tuple[Gpu, ...]:
    """The GPUs that NVML lists, by index."""
    listed = report.fact(Gpus)
    return tuple(sorted((g for g in listed.gpus if g.index is not None), key=lambda g: g.index or 0)) if listed else ()


def complete(report: Report) -> bool:
    """Whether NVML told of all of its GPUs."""
    return any(item.kind == "nvml" and '{"done": true}' in item.text for item in report.evidence)


def _indices(report: Report, want: Asked) -> frozenset[int] | None:
    """The indices of the GPUs that are asked for; None: any. CUDA numbers unlike cards by their speed, unless it is told otherwise."""
    if want.names is None:
        return None
    here = cards(report)
    by_cuda = want.by == "CUDA_VISIBLE_DEVICES" and len({card.name for card in here}) > 1
    if by_cuda and any(name.isdigit() for name in want.names):
        return None
    found = set()
    for name in want.names:
        if name.isdigit():
            found.add(int(name))
        elif (card := named(here, name)) is not None:
            found.add(card.index or 0)
        elif name.startswith("MIG-"):  # of its card, where that is told, else of whichever is partitioned
            mine = {card.index or 0 for card in here if any(part.uuid.startswith(name) for part in card.slices or ())}
            found |= mine or {card.index or 0 for card in here if card.mig}
    return frozenset(found)


def named(here: Sequence[Gpu], name: str) -> Gpu | None:
    """The card of that index or UUID (or its beginning, as CUDA takes it); None where there is none, or several."""
    if name.isdigit():
        return next((card for card in here if card.index == int(name)), None)
    uuid = name.removeprefix("MIG-").partition("/")[0].lower() if name.startswith("MIG-GPU-") else name.lower()
    found = [card for card in here if card.uuid and card.uuid.lower().startswith(uuid)]
    return found[0] if len(found) == 1 else None


def _absent(report: Report, want: Asked) -> list[Reason]:
    """The GPUs that are asked for, and that the driver does not show."""
    here = cards(report)
    if want.names is None or not complete(report):
        return []
    count = len(here)
    shown = "1 GPU" if count == 1 else f"{count} GPUs"
    by = want.by
    return [
        Reason("gpu-not-found", (f"GPU {name} ({by}): the driver shows {shown}", f"GPU {name}（{by}）：驱动只显示 {count} 块 GPU"))
        for name in want.names
        if named(here, name) is None and not (name.startswith("MIG-") and any(_may_hold(card, name) for card in here))
    ]


def _may_hold(card: Gpu, name: str) -> bool:
    """Whether a slice of that name is the card's, or may be."""
    return bool(card.mig) and (card.slices is None or any(part.uuid.startswith(name) for part in card.slices))


def _concerns(finding: Finding, report: Report, mine: frozenset[int] | None) -> bool:
    """Whether it is about the whole machine, or one of these GPUs. What cannot be placed is taken to be about them."""
    if mine is None:
        return True
    about = gpus_of(finding, report)
    return about is None or bool(about & mine)


def gpus_of(finding: Finding, report: Report) -> frozenset[int] | None:
    """The indices of the GPUs that a finding is about, by its subject: "GPU 3 (...)", "0000:1d:00", a model's name; None: all."""
    if index := _GPU.match(finding.subject):
        return frozenset({int(index[1])})
    here = cards(report)
    if place := bus(finding.subject):
        known = {card.index or 0 for card in here if card.bus and bus(card.bus) == place}
        return frozenset(known or _in_order(place, report, len(here))) or None
    same = {card.index or 0 for card in here if card.name and card.name == finding.subject}
    if not finding.subject and finding.rule and finding.rule.layer is Layer.HARDWARE:  # of a card that no longer says where it is
        cited = {int(told[1]) for ref in finding.refs if (told := _GPU.match(ref.quote))}
        same = {card.index or 0 for card in here if card.error and card.index in cited}
    return frozenset(same) or None


def _in_order(place: str, report: Report, count: int) -> set[int]:
    """Where a card that does not say its place has its index by: NVML counts them by their place on the bus."""
    pci = report.fact(Pci)
    slots = sorted(bus(device.bus) for device in pci.nvidia()) if pci and pci.complete else []
    return {slots.index(place)} if place in slots and len(slots) == count else set()


def bus(place: str) -> str:
    """ "00000000:3B:00.0", "0000:3b:00" and "3b:00.0" are one place; "" for what is none."""
    parts = place.lower().partition(".")[0].split(":")
    return ":".join(parts[-2:]) if len(parts) >= 2 and all(len(part) in (2, 4, 8) and part.isalnum() for part in parts) else ""
