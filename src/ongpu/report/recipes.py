"""Repair commands for this platform, from `knowledge/recipes/`."""

import shlex
import string
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ongpu.facts.container import Container
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Packages, Python
from ongpu.knowledge._tables import read
from ongpu.model import Command, Finding, Report, Risk
from ongpu.report import choice

TABLES = Path(__file__).parent.parent / "knowledge" / "recipes"
FAMILY = {
    "ubuntu": ("ubuntu", "debian", "linux"), "debian": ("debian", "linux"), "linuxmint": ("ubuntu", "debian", "linux"),
    "pop": ("ubuntu", "debian", "linux"), "rhel": ("rhel", "fedora", "linux"), "rocky": ("rhel", "fedora", "linux"),
    "almalinux": ("rhel", "fedora", "linux"), "centos": ("rhel", "fedora", "linux"), "fedora": ("fedora", "linux"),
    "amzn": ("rhel", "fedora", "linux"), "arch": ("arch", "linux"), "manjaro": ("arch", "linux"),
    "opensuse": ("suse", "linux"), "sles": ("suse", "linux"), "nixos": ("nixos", "linux"),
}


@cache
def table() -> Mapping[str, Any]:
    """All recipes, from one TOML file per layer."""
    return {name: entry for path in sorted(TABLES.glob("*.toml")) for name, entry in read(path).items()}


def platforms(report: Report) -> tuple[str, ...]:
    """The names of this platform, the most special first; Ubuntu where nobody said (most of those who ask)."""
    machine, container = report.fact(Machine), report.fact(Container)
    names: list[str] = []
    if container and container.inside:
        names.append("container")
    if machine and machine.wsl:
        names.append("wsl")
    if machine and machine.system in ("windows", "macos"):
        return (*names, machine.system, "any")
    distribution = machine.distribution if machine else None
    return (*names, *FAMILY.get(distribution or "ubuntu", ("linux",)), "any")


def commands(finding: Finding, report: Report, lang: str = "en") -> list[Command]:
    """The commands of a finding's fixes here. One whose values are not known is left out."""
    here = platforms(report)
    found: list[Command] = []
    for fix in finding.fixes:
        recipe = table()[fix.recipe]
        values = {name: str(value) for name, value in {**finding.values, **fix.values}.items() if value not in (None, "", "?")}
        undo = recipe.get("undo", {}).get(lang, "")
        values |= _picked(recipe["command"], values, report)
        best = next((name for name in here if any(_on(step, name) for step in recipe["command"])), None)
        for step in recipe["command"]:
            wanted = {name for _, name, _, _ in string.Formatter().parse(step["run"]) if name}
            if best and _on(step, best) and wanted <= values.keys() and step.get("unless") not in values:
                run = _in_their_python(step["run"].format_map(values), report)
                found.append(Command(run, Risk[step["risk"].upper()], undo))
    return list(dict.fromkeys(found))


def _picked(steps: list[Mapping[str, Any]], values: Mapping[str, str], report: Report) -> dict[str, str]:
    """The values {pick_torch}, {pick_jax} ... that these steps want: an install command chosen for this machine."""
    wanted = {name for step in steps for _, name, _, _ in string.Formatter().parse(step["run"]) if name and name.startswith("pick_")}
    found = {name: choice.install(name.removeprefix("pick_"), report, values.get("public")) for name in wanted}
    return {name: command for name, command in found.items() if command}


def _in_their_python(run: str, report: Report) -> str:
    """`pip install` aimed at the interpreter that was examined; uv where that environment has no pip."""
    python, packages = report.fact(Python), report.fact(Packages)
    run = run.removeprefix("python -m ") if run.startswith("python -m pip ") else run
    if not (python and python.executable and packages and packages.complete and run.startswith("pip ")):
        return run
    if "pip" not in packages.packages:
        return f"uv {run.replace(' uninstall -y', ' uninstall')} --python {shlex.quote(python.executable)}"
    return f"{shlex.quote(python.executable)} -m {run}"


def _on(step: Mapping[str, Any], platform: str) -> bool:
    on = step["on"]
    return platform == on or platform in on.split()
