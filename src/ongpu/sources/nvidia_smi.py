"""nvidia-smi's tables and lists: banner, cards, processes, -L, --query-*, topo -m, nvlink, and its failures."""

import re
from collections.abc import Iterable, Iterator

from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Gpu, Gpus
from ongpu.facts.system import Process, Processes
from ongpu.lazy import lazy, replace
from ongpu.model import Evidence, Fact, Ref, Source
from ongpu.sources import nvidia_smi_csv

Lines = list[tuple[int, str]]
_VERSION = r"\d{3}\.\d{1,3}(?:\.\d{1,3})?"
_SMI = lazy(rf"NVIDIA-SMI\s+(?:version\s*:\s*)?(?P<v>{_VERSION})")
_DRIVER = lazy(rf"(?:Driver Version|KMD Version|DRIVER version)\s*:\s*(?P<v>{_VERSION})")
_CUDA = lazy(r"CUDA (?:UMD )?Version\s*:\s*(?P<v>\d{1,2}\.\d{1,2})")
_BUS = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d"
_CARD = lazy(
    r"(?:^|[|│\s])(?P<index>\d{1,3})\s+(?P<name>[A-Za-z][^|│\n]{1,60}?)\s+(?P<mode>On|Off|N/A|WDDM|TCC|MCDM|ERR!)\s*[|│]"
    rf"\s*(?P<bus>{_BUS})\s+(?P<display>On|Off|N/A|ERR!)\s*[|│]\s*(?P<ecc>\d+|N/A|Off|ERR!)?"
)
_USE = lazy(
    r"(?P<fan>\d{1,3}%|N/A|ERR!|\[N/A\])\s+(?P<temp>\d{1,3}\s?C|N/A|ERR!)\s+(?P<pstate>P\d{1,2}|N/A|ERR!|Unknown)\s+"
    r"(?P<draw>\d+(?:\.\d+)?\s?W|N/A|ERR!|Unknown Error|Unkn\w*)?\s*/\s*(?P<limit>\d+(?:\.\d+)?\s?W|N/A|ERR!)\s*[|│]"
    r"\s*(?P<used>\d+)?[^|│/]{0,12}/\s*(?P<total>\d+)?[^|│]{0,12}[|│]\s*(?:(?P<util>\d{1,3})%|N/A|ERR!)?\s*"
    r"(?P<compute>Default|E\. ?Process|E\. ?Thread|Exclusive\w*|Prohibited|N/A|ERR!)?"
)
_MIG_MODE = lazy(r"[|│]\s+[|│]\s+[|│]\s*(?P<mig>Enabled\*?|Disabled\*?|N/A)\s*[|│]")
_MIG_ROW = lazy(r"[|│]\s*(?P<gpu>\d{1,3})\s+\d{1,3}\s+\d{1,3}\s+\d{1,3}\s*[|│]\s*\d+MiB\s*/\s*\d+MiB")
_PROCESS = lazy(
    r"(?:^|[|│])\s*(?P<gpu>\d{1,3})\s+(?:(?:\d{1,3}|N/A)\s+(?:\d{1,3}|N/A)\s+)?(?P<pid>\d{1,8})\s+(?:(?P<kind>C\+G|M\+C|C|G|M)\s+)?"
    r"(?P<name>[^\s|│][^|│\n]{0,200}?)?\s+(?P<memory>\d+\s?Mi?B|N/A|\[N/A\])\s*[|│]"
)
_LISTED = lazy(r"(?:^|\s)GPU (?P<index>\d{1,3}):\s+(?P<name>[^(\n]{2,80}?)\s+\(UUID: (?P<uuid>[^)\n]{0,60})\)")
_MIG_LISTED = lazy(r"^\s+MIG\s+\d+c?\.?\S*\s+Device\s+\d+:")
_LOST = lazy(
    rf"Unable to determine the device handle for GPU\s?(?:(?P<index>\d{{1,3}}):\s*)?(?P<bus>{_BUS})?"
    r":?\s*(?P<error>[^\n]{3,120})"
)
_LINK = lazy(r"Link (?P<link>\d{1,2}):\s*(?P<what>.{1,80})")
_LINK_ERRORS = lazy(r"(?:Replay|Recovery|CRC)[^:\n]{0,20}:\s*(?P<count>\d+)")
_TOPOLOGY = lazy(
    r"^\s*(?:\x1b\[\d*m)?GPU(?P<index>\d{1,3})\s+(?P<row>(?:(?:X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC|C2C)\s+)+)"
)
_FAILED = lazy(
    r"couldn't communicate with the NVIDIA driver|couldn't find libnvidia-ml\.so|"
    r"Failed to initialize NVML:\s*(?P<why>[^\n]{3,80})"
)
_NONE = lazy(r"(?:^|\n)[^\n]{0,60}?No devices were found")
_COMPUTE = {"e.process": "Exclusive_Process", "e.thread": "Exclusive_Thread", "exclusive_process": "Exclusive_Process"}


def _number(text: str | None) -> int | None:
    match = re.match(r"\[?(\d+)", text or "")
    return int(match[1]) if match else None


def _power(text: str | None) -> float | None:
    match = re.match(r"\d+(?:\.\d+)?", text or "")
    return float(match[0]) if match else None


def _onoff(text: str | None) -> bool | None:
    return {"On": True, "Off": False}.get(text or "")


def _banner(evidence: Evidence) -> Iterator[Driver]:
    smi, driver, cuda = _SMI.search(evidence.text), _DRIVER.search(evidence.text), _CUDA.search(evidence.text)
    failed = _FAILED.search(evidence.text)
    if smi:
        have = driver or smi
        marks = [(have, "version"), *([(cuda, "cuda")] if cuda else [])]
        yield Driver(
            version=have["v"],
            cuda=cuda["v"] if cuda else None,
            nvml="ok",
            smi_works=None if failed else True,
            installed=True,
            refs=tuple(evidence.ref_at(mark.start(), about) for mark, about in marks),
        )
    elif failed:
        yield Driver(
            nvml=failed["why"].strip() if failed["why"] else None,
            smi_works=False,
            refs=(evidence.ref_at(failed.start(), "smi_works"),),
        )


def _card(match: re.Match[str], ref: Ref) -> Gpu:
    mode = match["mode"]
    return Gpu(
        index=int(match["index"]),
        name=match["name"].strip(),
        bus=match["bus"],
        ref=ref,
        persistence=_onoff(mode),
        driver_model=mode if mode in ("WDDM", "TCC", "MCDM") else None,
        display_active=_onoff(match["display"]),
        ecc_uncorrected=_number(match["ecc"]),
        error="ERR!" if "ERR!" in (mode, match["display"], match["ecc"]) else None,
    )


def _use(gpu: Gpu, match: re.Match[str]) -> Gpu:
    broken = [name for name in ("fan", "temp", "pstate", "draw") if match[name] in ("ERR!", "Unknown Error")]
    compute = (match["compute"] or "").replace(" ", "").lower()
    return replace(
        gpu,
        fan=_number(match["fan"]),
        temperature=_number(match["temp"]),
        power_draw=_power(match["draw"]),
        pstate=match["pstate"] if match["pstate"].startswith("P") else None,
        power_limit=_power(match["limit"]),
        memory_used=_number(match["used"]),
        memory_total=_number(match["total"]),
        utilization=_number(match["util"]),
        compute_mode=_COMPUTE.get(compute, match["compute"]) if compute not in ("", "n/a", "err!") else None,
        error=gpu.error or ("ERR! in " + ", ".join(broken) if broken else None),
    )


def _table(evidence: Evidence, lines: Lines) -> Iterator[Gpu]:
    """The cards of the main table. A second line that stands alone gives a card without index or name."""
    card: Gpu | None = None
    waiting = 0
    for number, line in lines:
        if match := _CARD.search(line):
            if card:
                yield card
            card, waiting = _card(match, evidence.ref(number, line)), 4
        elif match := _USE.search(line):
            if card and waiting and card.memory_total is None and card.temperature is None:
                card = _use(card, match)
            else:
                yield _use(Gpu(ref=evidence.ref(number, line)), match)
        elif card and waiting and (match := _MIG_MODE.search(line)) and match["mig"] != "N/A":
            card = replace(card, mig=match["mig"].startswith("Enabled"))
        waiting = max(0, waiting - 1)
    if card:
        yield card


def _lists(evidence: Evidence, lines: Lines) -> Iterator[Gpu]:
    """What -L, nvlink and topo -m say of each card, and the cards that nvidia-smi could not open."""
    current: Gpu | None = None
    for number, line in lines:
        if match := _LISTED.search(line):
            if current:
                yield current
            current = Gpu(
                index=int(match["index"]),
                name=match["name"],
                uuid=match["uuid"] if len(match["uuid"]) > 8 else None,
                ref=evidence.ref(number, line),
            )
        elif current and _MIG_LISTED.match(line):
            current = replace(current, mig=True, mig_devices=(current.mig_devices or 0) + 1)
        elif current and (match := _LINK.search(line)):
            if "inactive" in match["what"].lower():
                current = replace(
                    current,
                    nvlink_inactive=(current.nvlink_inactive or 0) + 1,
                    ref=current.ref if current.nvlink_inactive else evidence.ref(number, line),
                )
            elif errors := _LINK_ERRORS.search(match["what"]):
                count = int(errors["count"])
                here = evidence.ref(number, line) if count else current.ref
                current = replace(current, nvlink_errors=(current.nvlink_errors or 0) + count, ref=here)
            elif current.nvlink_inactive is None:
                current = replace(current, nvlink_inactive=0)
        elif match := _LOST.search(line):
            yield Gpu(
                index=int(match["index"]) if match["index"] else None,
                bus=match["bus"],
                error=match["error"].strip(" .:"),
                ref=evidence.ref(number, line),
            )
        elif match := _TOPOLOGY.match(line):
            yield Gpu(index=int(match["index"]), links=tuple(match["row"].split()), ref=evidence.ref(number, line))
        elif match := _MIG_ROW.search(line):
            yield Gpu(index=int(match["gpu"]), mig=True, mig_devices=1)
    if current:
        yield current


def _merge(cards: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """One entry per card; MIG devices are counted; the first reading of a card counts."""
    fact = Gpus()
    devices: dict[int | None, int] = {}
    for card in cards:
        if card.mig_devices and card.name is None:
            devices[card.index] = devices.get(card.index, 0) + 1
            card = replace(card, mig_devices=None)
        fact = fact.join(Gpus(gpus=(card,))) if fact.gpus else Gpus(gpus=(card,))
    return tuple(replace(g, mig_devices=devices[g.index]) if g.index in devices else g for g in fact.gpus)


def _processes(evidence: Evidence, lines: Lines) -> Iterator[Processes]:
    listed = "Processes:" in evidence.text or "Compute processes:" in evidence.text
    found = []
    for number, line in lines:
        if not _CARD.search(line) and (match := _PROCESS.search(line)):
            name = (match["name"] or "").strip()
            found.append(
                Process(
                    pid=int(match["pid"]),
                    gpu=int(match["gpu"]),
                    name=name or None,
                    kind=match["kind"],
                    memory=_number(match["memory"]),
                    gone=name in ("", "-", "[Not Found]", "Unknown Error"),
                    ref=evidence.ref(number, line),
                )
            )
    if listed or found:
        head = tuple(evidence.ref(n, line) for n, line in lines if "rocesses" in line)[:2]
        yield Processes(
            processes=tuple(found), listed=True if listed else None, refs=(*(p.ref for p in found if p.ref), *head)
        )


def read(evidence: Evidence) -> Iterable[Fact]:
    """The driver, the cards and the processes that nvidia-smi shows."""
    lines = evidence.lines()
    yield from _banner(evidence)
    gpus = _merge([*_table(evidence, lines), *_lists(evidence, lines)])
    none = _NONE.search(evidence.text)
    if gpus or none:
        refs = tuple(g.ref for g in gpus if g.ref)
        if none:
            refs = (evidence.ref_at(none.end() - 1, "gpus"), *refs)
        used = tuple(evidence.ref(number, line, "memory_used") for number, line in lines if _USE.search(line))[:8] if gpus else ()
        yield Gpus(gpus=gpus, refs=(*refs, *used))
    yield from _processes(evidence, lines)
    yield from nvidia_smi_csv.read(evidence)


_MARKS = (
    "NVIDIA-SMI",
    "MiB",
    "MB  |",
    "UUID: GPU-",
    "No devices were found",
    "Failed to initialize NVML",
    "device handle for GPU",
)


def looks_like(evidence: Evidence) -> bool:
    """Whether something of nvidia-smi may stand in it."""
    text = evidence.text
    return (
        "nvidia-smi" in (evidence.command or text)
        or any(mark in text for mark in _MARKS)
        or "\nGPU0" in text
        or bool(_CARD.search(text) or _USE.search(text))
        or nvidia_smi_csv.looks_like(evidence)
    )


SOURCES = (
    Source(
        kind="nvidia-smi",
        read=read,
        looks_like=looks_like,
        gives=(Driver, Gpus, Processes),
        settle="nvidia-smi",
    ),
)
