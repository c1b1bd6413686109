"""The build that a repair installs: chosen by `knowledge/builds.py` for what the report knows of this machine."""

from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Packages, Python
from ongpu.facts.hardware import Gpus
from ongpu.knowledge.builds import Candidate, Here, nearest, pick
from ongpu.knowledge.cuda import support_ended_after
from ongpu.knowledge.gpus import compute_capability
from ongpu.knowledge.torch import PLATFORMS
from ongpu.model import Report

ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


def here(report: Report) -> Here:
    """What a build must fit, as far as the evidence tells."""
    gpus, driver, python = report.fact(Gpus), report.fact(Driver), report.fact(Python)
    cards = [g.capability or compute_capability(g.name or "") for g in gpus.gpus] if gpus else []
    cards = cards or [compute_capability(name) for name in gpus.names] if gpus else []
    version = (driver.module or driver.version) if driver else None
    return Here(tuple(dict.fromkeys(c for c in cards if c)), version, python.version if python else None, platform(report))


def platform(report: Report) -> str:
    """One of torch.PLATFORMS; Linux on x86_64 where nobody said."""
    machine = report.fact(Machine)
    system = "linux" if machine and machine.wsl else machine.system if machine and machine.system else "linux"
    architecture = machine.architecture if machine and machine.architecture else "x86_64"
    architecture = ARCHITECTURES.get(architecture, architecture)
    if system != "linux" and architecture == "aarch64":
        architecture = "arm64"
    name = f"{system}_{architecture}"
    return name if name in PLATFORMS else "linux_x86_64"


def install(framework: str, report: Report, version: str | None = None) -> str | None:
    """The command that installs a build which runs here: of that version (else of the installed one) if there is one, else of
    the nearest release.

    None where neither the card nor the driver is known; "" where nothing fits: then nothing is promised.
    """
    where = here(report)
    if not (where.capabilities or where.driver):
        return None
    packages = report.fact(Packages)
    version = version or (packages.version(framework) if packages else None)
    chosen: Candidate | None = pick(framework, where, version.partition("+")[0]).chosen if version else None
    if version and (chosen is None or chosen.problem):
        chosen = nearest(framework, where, version)
    chosen = chosen or pick(framework, where).chosen
    return chosen.exact if chosen and not chosen.problem else ""


def last_branch(report: Report) -> str | None:
    """The last driver branch that supports all the cards of the report: "470"; None where support goes on, or no card is known."""
    ended = [branch for capability in here(report).capabilities if (branch := support_ended_after(capability))]
    return min(ended, key=int, default=None)
