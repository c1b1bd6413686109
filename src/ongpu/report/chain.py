"""The chain from hardware to system: what holds, and where it breaks first."""

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine, Variables
from ongpu.facts.framework import Jax, OnnxRuntime, Packages, Python, TensorFlow, Torch
from ongpu.facts.hardware import Gpus, Pci
from ongpu.facts.libraries import Loader, Toolkit
from ongpu.facts.system import Processes
from ongpu.lazy import dataclass
from ongpu.model import Certainty, Layer, Report, Severity, Verdict
from ongpu.report.words import bracketed

HIDE = ("CUDA_VISIBLE_DEVICES",)


@dataclass(frozen=True, slots=True)
class Link:
    """One layer: its mark ("ok", "error", "warning", "possible", "unknown", "unasked") and what is known of it."""

    layer: Layer
    mark: str
    words: str


def chain(report: Report, lang: str = "en") -> list[Link]:
    """One link per layer. "ok" is said only of a layer that something is known of; CODE is told only where it breaks."""
    links = []
    for layer in Layer:
        outcomes = [o for o in report.outcomes if o.rule.layer is layer]
        found = [f for f in report.findings if f.rule and f.rule.layer is layer]
        worst = max((f.weight for f in found), default=Severity.NOTE)
        if found and worst > Severity.NOTE:
            sure = any(f.certainty > Certainty.POSSIBLE and f.weight is worst for f in found)
            mark = worst.name.lower() if sure else "possible"
        elif any(o.verdict is Verdict.CRASHED or (o.verdict is Verdict.UNKNOWN and o.asked) for o in outcomes):
            mark = "unknown"
        elif any(o.verdict in (Verdict.CLEAR, Verdict.FOUND) for o in outcomes):
            mark = _fine(report, layer)
        else:
            mark = "unasked"
        if layer is not Layer.CODE or mark not in ("unasked", "ok"):
            words = _words(report, layer, lang)
            links.append(Link(layer, mark if words or mark != "ok" else "unasked", words))
    return links


def _fine(report: Report, layer: Layer) -> str:
    """The mark of a layer without a fault: "ok" only where something works, not where there is nothing or it does not answer."""
    if layer is Layer.HARDWARE:
        gpus, pci = report.fact(Gpus), report.fact(Pci)
        return "unasked" if pci and pci.complete and not pci.nvidia() and not (gpus and gpus.gpus) else "ok"
    if layer is Layer.DRIVER:
        return "unknown" if _silent(report.fact(Driver)) else "ok"
    if layer is Layer.FRAMEWORK:
        return "unasked" if _none_installed(report) else "ok"
    return "ok"


def _silent(driver: Driver | None) -> bool:
    """Whether the driver was asked and did not work."""
    return bool(driver and not driver.smi_works and (driver.smi_works is False or driver.nvml not in (None, "ok")))


def _none_installed(report: Report) -> bool:
    packages = report.fact(Packages)
    frameworks = (report.fact(Torch), report.fact(TensorFlow), report.fact(Jax), report.fact(OnnxRuntime))
    return bool(packages and packages.complete and not any(one and one.version for one in frameworks))


def _words(report: Report, layer: Layer, lang: str) -> str:
    zh = lang == "zh"
    parts: list[str] = []
    if layer is Layer.HARDWARE:
        parts = _cards(report, zh)
    elif layer is Layer.DRIVER:
        driver = report.fact(Driver)
        if driver and (driver.version or driver.module):
            cuda = bracketed(f"CUDA {driver.cuda}", "zh" if zh else "en") if driver.cuda else ""
            failing = bracketed("未工作" if zh else "not working", "zh" if zh else "en") if _silent(driver) else ""
            parts.append((driver.version or driver.module or "") + cuda + failing)
    elif layer is Layer.LIBRARIES:
        loader, toolkit = report.fact(Loader), report.fact(Toolkit)
        if loader and loader.loaded:
            held = len(loader.loaded) - len(loader.missing())
            parts.append(f"{held}/{len(loader.loaded)} " + ("个 CUDA 库可解析" if zh else "CUDA libraries resolve"))
        if toolkit and (toolkit.nvcc or toolkit.installed):
            parts.append(f"nvcc {toolkit.nvcc}" if toolkit.nvcc else ("、" if zh else ", ").join(toolkit.installed[:2]))
    elif layer is Layer.FRAMEWORK:
        parts = _frameworks(report, zh)
    elif layer is Layer.ENVIRONMENT:
        variables = report.fact(Variables)
        if variables:
            shown = [n for n in HIDE if variables.get(n) is not None]  # set to nothing it hides every card
            mine = [f for f in report.findings if f.rule and f.rule.layer is layer]
            guilty = [n for f in mine if (n := str(f.values.get("name", ""))) and variables.get(n) is not None]
            shown = [*dict.fromkeys((*guilty, *shown)), *(n for n in ("LD_LIBRARY_PATH", "CUDA_HOME") if variables.get(n))]
            nothing = "（空）" if zh else "(empty)"
            parts = [f"{name}={variables.get(name) or nothing}" for name in dict.fromkeys(shown)]
    elif layer is Layer.CONTAINER:
        container = report.fact(Container)
        if container and container.inside is not None:
            outside = "不在容器中" if zh else "not in a container"
            parts.append((container.runtime or ("容器" if zh else "container")) if container.inside else outside)
    elif layer is Layer.SYSTEM:
        machine, processes = report.fact(Machine), report.fact(Processes)
        if machine and machine.system:
            names = (machine.distribution or machine.system, machine.distribution_version, machine.architecture)
            parts.append(" ".join(name for name in names if name))
            if machine.wsl:
                parts.append(f"WSL{machine.wsl}")
        if processes and processes.processes:
            count = len(processes.processes)
            parts.append(f"{count} 个 GPU 进程" if zh else f"{count} process{'' if count == 1 else 'es'} on the GPUs")
    return ("，" if zh else ", ").join(parts)


def _cards(report: Report, zh: bool) -> list[str]:
    gpus, pci = report.fact(Gpus), report.fact(Pci)
    if gpus and gpus.gpus:
        names: dict[str, int] = {}
        for gpu in gpus.gpus:
            name = gpu.name or "GPU"
            names[name] = names.get(name, 0) + 1
        return [f"{count} x {name}" for name, count in names.items()]
    if pci and pci.complete:
        cards = pci.nvidia()
        if not cards:
            return ["PCI 总线上没有 NVIDIA 显卡" if zh else "no NVIDIA card on the PCI bus"]
        return [f"{len(cards)} " + ("块 NVIDIA 显卡在 PCI 总线上" if zh else f"NVIDIA card{'' if len(cards) == 1 else 's'} on the PCI bus")]
    return list(gpus.all_names()[:3]) if gpus else []


def _frameworks(report: Report, zh: bool) -> list[str]:
    parts = []
    torch, tensorflow, jax = report.fact(Torch), report.fact(TensorFlow), report.fact(Jax)
    if torch and torch.version:
        build = "" if torch.cuda is None else bracketed(f"CUDA {torch.cuda}" if torch.cuda else "CPU", "zh" if zh else "en")
        parts.append(f"torch {torch.version.partition('+')[0]}{build}")
    if tensorflow and tensorflow.version:
        parts.append(f"tensorflow {tensorflow.version}")
    if jax and jax.version:
        parts.append(f"jax {jax.version}")
    ort, packages, python = report.fact(OnnxRuntime), report.fact(Packages), report.fact(Python)
    if ort and ort.version:
        parts.append(f"onnxruntime {ort.version}")
    if packages and packages.complete and not parts:
        where = python.executable if python else None
        return [("没有安装框架" if zh else "no framework is installed") + (("：" if zh else " in ") + where if where else "")]
    if python and python.executable:
        parts.append(("位于 " if zh else "in ") + python.executable)
    return parts
