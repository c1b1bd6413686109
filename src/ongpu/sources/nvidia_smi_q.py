"""`nvidia-smi -q`, whole or in part, as text and as XML."""

import re
from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree import ElementTree

from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Gpu, Gpus
from ongpu.facts.system import Process, Processes
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source

_GPU = lazy(r"^\s{0,8}GPU (?P<bus>(?:[0-9A-Fa-f]{4,8}:)[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$")
_LEAF = lazy(r"^(?P<indent>[ \t]*)(?P<key>[A-Za-z0-9][^:\n]{0,60}?)\s*:\s+(?P<value>\S[^\n]{0,300}?)\s*$")
_SECTION = lazy(r"^(?P<indent>[ \t]*)(?P<name>[A-Z][\w ./()-]{1,60}?)\s*:?\s*$")
_NUMBER = lazy(r"-?\d+(?:\.\d+)?")
_FULL = lazy(r"\d{3}\.\d{1,3}(?:\.\d{1,3})?$")
_SHORT = lazy(r"\d{1,2}\.\d{1,2}$")
_EMPTY = (
    "n/a",
    "[n/a]",
    "not supported",
    "[not supported]",
    "none",
    "requested functionality has been deprecated",
    "unknown error",
)

# (section words, key) -> field and its unit; "" as section: anywhere. The first that fits counts.
# fmt: off
_FIELDS: tuple[tuple[str, str, str, str], ...] = (
    ("", "product name", "name", "word"), ("", "gpu uuid", "uuid", "word"),
    ("", "persistence mode", "persistence", "yes"),
    ("", "display active", "display_active", "yes"), ("mig mode", "current", "mig", "yes"),
    ("driver model", "current", "driver_model", "word"),
    ("", "compute mode", "compute_mode", "word"), ("", "license status", "license", "word"),
    ("", "cuda compute capability", "capability", "word"),
    ("pcie generation", "max", "pcie_gen_max", "whole"), ("pcie generation", "current", "pcie_gen", "whole"),
    ("link width", "max", "pcie_width_max", "whole"), ("link width", "current", "pcie_width", "whole"),
    ("", "replays since reset", "pcie_replays", "whole"), ("", "fan speed", "fan", "whole"),
    ("", "performance state", "pstate", "word"),
    ("fb memory usage", "total", "memory_total", "whole"), ("fb memory usage", "used", "memory_used", "whole"),
    ("fb memory usage", "free", "memory_free", "whole"), ("utilization", "gpu", "utilization", "whole"),
    ("", "gpu current temp", "temperature", "whole"), ("", "gpu t.limit temp", "temperature_margin", "whole"),
    ("", "gpu slowdown temp", "temperature_slowdown", "whole"), ("", "gpu max operating temp", "temperature_max", "whole"),
    ("power readings", "power draw", "power_draw", "real"),
    ("power readings", "average power draw", "power_draw", "real"),
    ("power readings", "instantaneous power draw", "power_draw", "real"),
    ("power readings", "current power limit", "power_limit", "real"),
    ("power readings", "power limit", "power_limit", "real"),
    ("power readings", "enforced power limit", "power_limit", "real"),
    ("power readings", "default power limit", "power_default", "real"),
    ("power readings", "max power limit", "power_max", "real"),
    ("retired pages", "pending page blacklist", "retired_pending", "yes"),
    ("retired pages", "pending", "retired_pending", "yes"),
    ("remapped rows", "uncorrectable error", "remap_uncorrectable", "whole"),
    ("remapped rows", "pending", "remap_pending", "yes"),
    ("remapped rows", "remapping failure occurred", "remap_failed", "yes"),
    ("", "remapping failure occurred", "remap_failed", "yes"),
    ("", "remapping failure", "remap_failed", "yes"), ("max clocks", "sm", "clock_sm_max", "whole"),
    ("clocks", "sm", "clock_sm", "whole"),
    ("max clocks", "graphics", "clock_sm_max", "whole"), ("clocks", "graphics", "clock_sm", "whole"),
    ("", "gpu recovery action", "recovery_action", "word"),
)
# fmt: on
_REASONS = (
    "SW Power Cap", "HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown",
)  # fmt: skip
_UNCORRECTED = ("sram uncorrectable", "dram uncorrectable", "sram uncorrectable parity", "sram uncorrectable sec-ded")
_OPPOSITE = {"volatile": "ecc_uncorrected", "aggregate": "ecc_uncorrected_total"}


def _value(text: str, unit: str) -> Any:
    if text.lower() in _EMPTY:
        return None
    if unit == "yes":
        word = text.lower().partition(" ")[0]
        return {"yes": True, "enabled": True, "active": True, "no": False, "disabled": False}.get(word)
    if unit == "word":
        return text
    match = _NUMBER.match(text)
    if not match:
        return None
    return float(match[0]) if unit == "real" else int(float(match[0]))


class _Card:
    """What has been read of one card so far."""

    def __init__(self, bus: str | None, ref: Ref | None, index: int | None) -> None:
        self.values: dict[str, Any] = {"bus": bus, "index": index}
        self.ref, self.deciding = ref, None
        self.reasons: list[str] | None = None
        self.refs: list[Ref] = []

    def set(self, name: str, value: Any, ref: Ref, deciding: bool = False) -> None:
        """Note a value, unless the card has one; a deciding line is the one that the reader is shown."""
        if value is None or self.values.get(name) is not None:
            return
        self.values[name] = value
        self.refs.append(Ref(ref.source, ref.line, ref.quote, name))

    def add(self, name: str, count: int, ref: Ref) -> None:
        """Add to a counter."""
        self.values[name] = (self.values.get(name) or 0) + count
        if count:
            self.refs.append(Ref(ref.source, ref.line, ref.quote, name))

    def gpu(self) -> Gpu | None:
        """The card, or None where nothing was said of it."""
        if self.reasons is not None:
            self.values["throttle"] = tuple(self.reasons)
        if self.values.get("mig") is not True:
            self.values.pop("mig_devices", None)  # every card says "None" there
        if not any(value is not None for name, value in self.values.items() if name != "index"):
            return None
        return Gpu(**self.values, ref=self.ref or (self.refs[0] if self.refs else None))


def _leaf(card: _Card, path: str, key: str, value: str, ref: Ref) -> None:
    """One "key : value" line under its sections."""
    low = key.lower()
    if "event reasons" in path or "throttle reasons" in path or (key in _REASONS and not path.strip()):
        if "counters" in path:
            return
        card.reasons = card.reasons if card.reasons is not None else []
        if value.lower() == "active" and key not in card.reasons:
            card.reasons.append(key)
            card.refs.append(Ref(ref.source, ref.line, ref.quote, "throttle"))
        return
    if "ecc errors" in path or "double bit" in path or low in _UNCORRECTED:
        kind = next((name for word, name in _OPPOSITE.items() if word in path), None)
        count = _value(value, "whole")
        total_of_old = "double bit" in path and low == "total"
        if kind and count is not None and (low in _UNCORRECTED or total_of_old):
            card.add(kind, count, ref)
        return
    if low == "mig devices" and value.lower() == "none":
        card.set("mig_devices", 0, ref)
        return
    if "module power readings" in path or "memory power" in path:
        return
    for section, name, field, unit in _FIELDS:
        if (
            low == name
            and (not section or section in path)
            and not (section == "clocks" and re.search(r"max|appl|default", path))
        ):
            card.set(field, _value(value, unit), ref)
            return


def _text(evidence: Evidence) -> Iterator[Fact]:
    cards: list[_Card] = [_Card(None, None, None)]
    stack: list[tuple[int, str]] = []
    versions: dict[str, tuple[str, Ref]] = {}
    process: dict[str, Any] | None = None
    processes: list[Process] = []
    listed = False
    for number, line in evidence.lines():
        ref = evidence.ref(number, line)
        if match := _GPU.match(line):
            cards.append(_Card(match["bus"], ref, len(cards) - 1))
            stack = []
        elif match := _LEAF.match(line):
            key, value, indent = match["key"], match["value"], len(match["indent"].expandtabs(4))
            stack = [item for item in stack if item[0] < indent]
            path = " / ".join(name for _, name in stack).lower()
            if key in ("Driver Version", "CUDA Version", "KMD Version", "CUDA UMD Version"):
                versions.setdefault("cuda" if "CUDA" in key else "version", (value, ref))
            elif key == "Process ID" and value.isdigit():
                process = {"pid": int(value), "gpu": cards[-1].values["index"], "ref": ref}
                processes.append(Process(**process))
            elif process and key in ("Type", "Name", "Used GPU Memory"):
                process[{"Type": "kind", "Name": "name"}.get(key, "memory")] = _value(
                    value, "whole" if "Used" in key else "word"
                )
                processes[-1] = Process(**process)
            else:
                _leaf(cards[-1], path, key, value, ref)
            listed = listed or key == "Processes"
        elif match := _SECTION.match(line):
            indent = len(match["indent"].expandtabs(4))
            stack = [*(item for item in stack if item[0] < indent), (indent, match["name"])]
            listed = listed or match["name"] == "Processes"
            process = None if match["name"] != "Processes" else process
    yield from _facts(cards, versions, processes, listed)


def _facts(
    cards: list[_Card], versions: dict[str, tuple[str, Ref]], processes: list[Process], listed: bool
) -> Iterator[Fact]:
    good = {name: pair for name, pair in versions.items() if (_SHORT if name == "cuda" else _FULL).match(pair[0])}
    if good:
        yield Driver(
            version=good["version"][0] if "version" in good else None,
            cuda=good["cuda"][0] if "cuda" in good else None,
            nvml="ok",
            smi_works=True,
            installed=True,
            refs=tuple(Ref(ref.source, ref.line, ref.quote, name) for name, (_, ref) in good.items()),
        )
    gpus = tuple(gpu for card in cards if (gpu := card.gpu()))
    if gpus:
        yield Gpus(gpus=gpus, refs=tuple(ref for card in cards for ref in card.refs))
    if processes or listed:
        yield Processes(processes=tuple(processes), listed=True, refs=tuple(p.ref for p in processes if p.ref))


# fmt: off
_XML: tuple[tuple[str, str, str], ...] = (
    ("product_name", "Product Name", ""), ("uuid", "GPU UUID", ""), ("persistence_mode", "Persistence Mode", ""),
    ("display_active", "Display Active", ""), ("mig_mode/current_mig", "Current", "mig mode"), ("mig_devices", "MIG Devices", ""),
    ("compute_mode", "Compute Mode", ""),
    ("driver_model/current_dm", "Current", "driver model"), ("fan_speed", "Fan Speed", ""),
    ("performance_state", "Performance State", ""),
    ("pci/pci_gpu_link_info/pcie_gen/max_link_gen", "Max", "pcie generation"),
    ("pci/pci_gpu_link_info/pcie_gen/current_link_gen", "Current", "pcie generation"),
    ("pci/pci_gpu_link_info/link_widths/max_link_width", "Max", "link width"),
    ("pci/pci_gpu_link_info/link_widths/current_link_width", "Current", "link width"),
    ("pci/replay_counter", "Replays Since Reset", ""),
    ("fb_memory_usage/total", "Total", "fb memory usage"), ("fb_memory_usage/used", "Used", "fb memory usage"),
    ("fb_memory_usage/free", "Free", "fb memory usage"), ("utilization/gpu_util", "Gpu", "utilization"),
    ("temperature/gpu_temp", "GPU Current Temp", ""), ("temperature/gpu_temp_tlimit", "GPU T.Limit Temp", ""),
    ("temperature/gpu_temp_slow_threshold", "GPU Slowdown Temp", ""),
    ("gpu_power_readings/power_draw", "Power Draw", "power readings"),
    ("power_readings/power_draw", "Power Draw", "power readings"),
    ("gpu_power_readings/current_power_limit", "Power Limit", "power readings"),
    ("power_readings/enforced_power_limit", "Power Limit", "power readings"), ("clocks/sm_clock", "SM", "clocks"),
    ("power_readings/default_power_limit", "Default Power Limit", "power readings"),
    ("max_clocks/sm_clock", "SM", "max clocks"),
    ("gpu_power_readings/default_power_limit", "Default Power Limit", "power readings"),
    ("remapped_rows/remapped_row_unc", "Uncorrectable Error", "remapped rows"),
    ("gpu_recovery_action", "GPU Recovery Action", ""),
    ("remapped_rows/remapped_row_pending", "Pending", "remapped rows"),
    ("retired_pages/pending_blacklist", "Pending", "retired pages"),
    ("remapped_rows/remapped_row_failure", "Remapping Failure Occurred", "remapped rows"),
    ("ecc_errors/volatile/sram_uncorrectable", "SRAM Uncorrectable", "ecc errors / volatile"),
    ("ecc_errors/volatile/dram_uncorrectable", "DRAM Uncorrectable", "ecc errors / volatile"),
    ("ecc_errors/volatile/double_bit/total", "Total", "ecc errors / volatile / double bit"),
    ("ecc_errors/aggregate/sram_uncorrectable", "SRAM Uncorrectable", "ecc errors / aggregate"),
    ("ecc_errors/aggregate/dram_uncorrectable", "DRAM Uncorrectable", "ecc errors / aggregate"),
    ("ecc_errors/aggregate/double_bit/total", "Total", "ecc errors / aggregate / double bit"),
)
# fmt: on


def _xml(evidence: Evidence) -> Iterator[Fact]:
    """The same from `nvidia-smi -q -x`. Raises ValueError on entities (they can swell without limit) and broken XML."""
    text = evidence.text[evidence.text.find("<") :]
    if "<!ENTITY" in text:
        raise ValueError("XML with its own entities is refused")
    try:
        root = ElementTree.fromstring(text[: text.rfind(">") + 1])  # noqa: S314 - entities are refused above
    except ElementTree.ParseError as error:
        raise ValueError(f"broken XML: {error}") from error
    top = evidence.ref_at(max(0, evidence.text.find("<nvidia_smi_log")))
    versions = {
        name: ((node.text or "").strip(), top)
        for name, tag in (("version", "driver_version"), ("cuda", "cuda_version"))
        if (node := root.find(tag)) is not None
    }
    cards, processes, at = [], [], 0
    for index, node in enumerate(root.iter("gpu")):
        at = max(at, evidence.text.find("<gpu id", at + 1))
        ref = evidence.ref_at(at)
        card = _Card(node.get("id"), ref, index)
        for path, key, section in _XML:
            found = node.find(path)
            if found is not None and (found.text or "").strip():
                _leaf(
                    card,
                    section,
                    key,
                    (found.text or "").strip(),
                    Ref(ref.source, ref.line, f"{key}: {(found.text or '').strip()}"),
                )
        for tag in ("clocks_throttle_reasons", "clocks_event_reasons"):
            for reason in node.find(tag) if node.find(tag) is not None else ():  # type: ignore[union-attr]
                words = (
                    reason.tag.removeprefix("clocks_throttle_reason_").removeprefix("clocks_event_reason_").split("_")
                )
                name = " ".join(w.upper() if w in ("sw", "hw") else w.capitalize() for w in words).replace("Hw", "HW")
                name = name.removeprefix("Gpu ")
                _leaf(
                    card,
                    "clocks event reasons",
                    name,
                    (reason.text or "").strip(),
                    Ref(ref.source, ref.line, f"{name}: {reason.text}"),
                )
        cards.append(card)
        for entry in node.iter("process_info"):
            pid, name, memory = (entry.findtext(tag) or "" for tag in ("pid", "process_name", "used_memory"))
            if pid.isdigit():
                processes.append(
                    Process(
                        pid=int(pid),
                        gpu=index,
                        name=name or None,
                        memory=_value(memory, "whole"),
                        kind=entry.findtext("type"),
                        ref=ref,
                    )
                )
    yield from _facts(cards, versions, processes, root.find(".//processes") is not None)


def read(evidence: Evidence) -> Iterable[Fact]:
    """The cards, their state and their processes."""
    yield from _xml(evidence) if "<nvidia_smi_log" in evidence.text else _text(evidence)


# fmt: off
_MARKS = (
    "NVSMI LOG", "<nvidia_smi_log", "Attached GPUs", "Remapped Rows", "Throttle Reasons", "Event Reasons",
    "Power Readings", "ECC Errors",
    "Retired Pages", "FB Memory Usage", "GPU Current Temp", "Product Name", "GPU Link Info", "Performance State",
    "Compute Mode  ",
    "GPU Slowdown", "License Status", "GPU Recovery Action", "Remapping Failure", "Used GPU Memory", "MIG Mode",
    "DRAM Uncorrectable",
    "SRAM Uncorrectable", "Link Width", "Power Draw", "Max Clocks",
)
# fmt: on


def looks_like(evidence: Evidence) -> bool:
    """Whether some part of `nvidia-smi -q` may stand in it."""
    return any(mark in evidence.text for mark in _MARKS)


SOURCES = (
    Source(
        kind="nvidia-smi-q",
        read=read,
        looks_like=looks_like,
        gives=(Driver, Gpus, Processes),
        settle="nvidia-smi -q",
    ),
)
