"""Lines that alarm and mean nothing: one note each. Never more than a note, and never instead of a fault."""

from collections.abc import Iterator
from typing import Any

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver, Kernel
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Jax, Packages, TensorFlow, Torch
from ongpu.facts.hardware import MUST_TURN, Gpu, Gpus, Pci, Xids
from ongpu.facts.intent import goes_on
from ongpu.facts.libraries import Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.facts.visible import seen
from ongpu.knowledge._tables import table
from ongpu.model import Certainty, Finding, Layer, Ref, Rule, Severity, Text

MOST = 8  # notes of one report: more only bury what matters
LIVE = "nvml:ask"  # a machine that is asked has no need to hear that it is idle


def entries() -> dict[str, Any]:
    """The entries of the table, without what it says about itself."""
    return {name: entry for name, entry in table("harmless").items() if isinstance(entry, dict)}


Found = tuple[dict[str, object], tuple[Ref, ...]]


def _idle(gpu: Gpu) -> bool:
    quiet = gpu.utilization is None or gpu.utilization <= 5
    return quiet and (gpu.pstate in ("P5", "P8", "P10", "P12") or (gpu.pstate is None and gpu.utilization == 0))


def _refs(gpu: Gpu) -> tuple[Ref, ...]:
    return (gpu.ref,) if gpu.ref else ()


def _gpu_facts(gpus: Gpus | None) -> Iterator[tuple[str, Found]]:
    for gpu in gpus.gpus if gpus else ():
        if gpu.ref and gpu.ref.source == LIVE:
            continue
        if gpu.fan == 0 and gpu.temperature is not None and gpu.temperature < MUST_TURN and gpu.error is None:
            yield "fan-off", ({"gpu": gpu.label, "temperature": gpu.temperature}, _refs(gpu))
        if _idle(gpu):
            told: dict[str, object] = {
                "index": gpu.index if gpu.index is not None else "?",
                "pstate": gpu.pstate or "?",
                "watts": f"{gpu.power_draw:g}" if gpu.power_draw is not None else "?",
                "util": gpu.utilization if gpu.utilization is not None else "?",
            }
            yield "idle", ({}, _refs(gpu))
            if gpu.pstate:
                yield "idle-p8", (told, _refs(gpu))
            if (
                gpu.pcie_gen
                and gpu.pcie_gen_max
                and gpu.pcie_gen < gpu.pcie_gen_max
                and gpu.pcie_width in (None, gpu.pcie_width_max)
            ):
                yield "idle-link", ({}, _refs(gpu))


def _facts(
    gpus: Gpus | None,
    pci: Pci | None,
    driver: Driver | None,
    torch: Torch | None,
    toolkit: Toolkit | None,
    machine: Machine | None,
    others: bool,
    xids: Xids | None,
    processes: Processes | None,
    container: Container | None,
    boxed: bool,
    kernel: Kernel | None,
) -> Iterator[tuple[str, Found]]:
    """The facts of this evidence that an entry of the table may ask for."""
    yield from _gpu_facts(gpus)
    for device in pci.nvidia() if pci else ():
        slow = device.speed and device.speed_max and device.speed < device.speed_max and device.speed <= 2.5
        if slow and device.width == device.width_max:
            yield "idle-link", ({}, (device.ref,) if device.ref else ())
    built = (torch.cuda if torch else None) or (toolkit.nvcc if toolkit else None)
    if driver and driver.cuda and built and _number(built) < _number(driver.cuda):
        yield "cuda-differs", ({"able": driver.cuda, "built": built}, driver.about("cuda"))
    own = toolkit.nvcc if toolkit else None
    if driver and driver.cuda and own and _number(own) > _number(driver.cuda) and _number(own)[0] == _number(driver.cuda)[0] >= 11:
        yield "cuda-minor-newer", ({"able": driver.cuda, "built": own}, (*driver.about("cuda")[:1], *(toolkit.about("nvcc")[:1] if toolkit else ())))
    if torch and torch.available and not torch.conflicts and torch.computed is not False:
        yield "torch-works", ({}, torch.about("available"))
    if machine and machine.wsl and seen(gpus, torch):
        yield "wsl-works", ({}, ())
    if others:
        yield "other-framework", ({}, ())
    if processes and container and container.inside:
        yield "process-inside", ({}, (*container.about("inside")[:1], *processes.refs[:2]))
    if boxed or (container and container.inside):
        yield "in-container", ({}, ())
    cut = [gpu for gpu in gpus.gpus if gpu.mig_devices and gpu.mig_devices > 1] if gpus else []
    if cut and torch and torch.device_count == 1:
        yield "mig-one", ({}, (*(ref for gpu in cut for ref in _refs(gpu)), *torch.about("device_count")[:1]))
    cards = [gpu for gpu in gpus.gpus if gpu.index == 0 and gpu.uuid] if gpus else []
    if len({gpu.uuid for gpu in cards}) > 1:
        yield "renumbered", ({}, tuple(ref for gpu in cards for ref in _refs(gpu)))
    if kernel and kernel.release and any(kernel.release in line and "installed" in line for line in kernel.dkms):
        yield "dkms-this-kernel", ({}, kernel.about("release")[:1])
    if gpus and len(gpus.gpus) == 1:
        yield "one-gpu", ({}, _refs(gpus.gpus[0]))
    if seen(gpus, torch):
        yield "gpu-seen", ({}, ())
    if not xids or all(event.code in (13, 31, 43, 45) for event in xids.events):
        yield "only-application-xids", ({}, ())


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def check(
    symptoms: Symptoms | None,
    gpus: Gpus | None,
    pci: Pci | None,
    driver: Driver | None,
    torch: Torch | None,
    tensorflow: TensorFlow | None,
    jax: Jax | None,
    packages: Packages | None,
    toolkit: Toolkit | None,
    machine: Machine | None,
    xids: Xids | None,
    processes: Processes | None,
    container: Container | None,
    kernel: Kernel | None,
) -> Iterator[Finding]:
    others = bool(torch or tensorflow or (packages and packages.get("torch", "tensorflow", "diffusers"))) or bool(
        symptoms and symptoms.has("harmless-other-framework")
    )
    boxed = bool(symptoms and symptoms.has("container-told"))
    found: dict[str, Found] = {}
    for name, told in _facts(gpus, pci, driver, torch, toolkit, machine, others, xids, processes, container, boxed, kernel):
        before = found.get(name)
        found[name] = (before[0], (*before[1], *told[1])) if before else told
    if goes_on(symptoms):
        found["goes-on"] = ({}, ())
    count = 0
    for name, entry in entries().items():
        lines = symptoms.cite(entry["symptom"], most=3) if symptoms and "symptom" in entry else ()
        fact = found.get(entry["facts"]) if "facts" in entry else None
        both = bool(entry.get("both"))
        if (both and not (lines and fact)) or not (lines or fact):
            continue
        if symptoms and "unless" in entry and symptoms.has(entry["unless"]):
            continue
        if not fact and "{" in entry["en"]["title"]:
            continue
        values, refs = fact or ({}, ())
        yield Finding(certainty=Certainty.LIKELY, variant=name, values=values, refs=(*lines, *refs))
        count += 1
        if count >= MOST:
            return


def _texts() -> dict[str, tuple[Text, Text]]:
    return {name: (Text(**entry["en"]), Text(**entry["zh"])) for name, entry in entries().items()}


RULE = Rule(
    slug="healthy",
    layer=Layer.SYSTEM,
    severity=Severity.NOTE,
    check=check,
    settle=("nvidia-smi", "python -c 'import torch; print(torch.cuda.is_available())'"),
    see=(
        "https://github.com/tensorflow/tensorflow/issues/62075",
        "https://docs.nvidia.com/deploy/xid-errors/",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management",
    ),
    en=Text(
        title="A line that alarms, but is harmless",
        why="It is printed where everything works, too.",
        fix="Nothing to do.",
    ),
    zh=Text(
        title="看似报警、实则无害的信息",
        why="一切正常时也会打印。",
        fix="无需处理。",
    ),
    variants=_texts(),
)
