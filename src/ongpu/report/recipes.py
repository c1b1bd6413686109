"""Repair commands for this platform, from `knowledge/recipes/`."""

import re
import shlex
import string
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

from ongpu.facts.container import Container
from ongpu.facts.driver import SystemPackages
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
    last = choice.last_branch(report)
    for fix in finding.fixes:
        recipe = table()[fix.recipe]
        given = {**finding.values, **fix.values, "legacy": last}
        values = {name: str(value) for name, value in given.items() if value not in (None, "", "?")}
        values |= _flavour(report)
        picked = _picked(recipe["command"], values, report)
        values |= {name: command for name, command in picked.items() if command}
        best = next((name for name in here if any(_on(step, name) for step in recipe["command"])), None)
        for step in recipe["command"]:
            wanted = {name for _, name, _, _ in string.Formatter().parse(step["run"]) if name}
            if last and _branch(step, wanted, values) > int(last):
                continue  # a driver that no longer supports the card would leave it without any
            if best and _on(step, best) and wanted <= values.keys() and step.get("unless") not in {*picked, *values}:
                run = _in_their_python(step["run"].format_map(values), report)
                looks = step["risk"] == "look"
                risk = Risk.SAFE if looks or step.get("safe_with") in values else Risk[step["risk"].upper()]
                found.append(Command(run, risk, _undo(recipe, lang, values, report), looks))
    return list(dict.fromkeys(found))


def _flavour(report: Report) -> dict[str, str]:
    """{flavour} and {server} of the driver package that is installed: "nvidia-driver-535-server-open" -> "-server-open", "-server"."""
    packages = report.fact(SystemPackages)
    names = [re.fullmatch(r"nvidia-driver-\d{3}(-server)?(-open)?", name) for name in packages.packages] if packages else []
    server, opened = next((match.groups("") for match in names if match), ("", ""))
    return {"flavour": server + opened, "server": server}


def _undo(recipe: Mapping[str, Any], lang: str, values: Mapping[str, str], report: Report) -> str:
    """How a recipe is undone here: `undo`, or `undo_else` where it names a value that nobody told."""
    for name in ("undo", "undo_else"):
        text = str(recipe.get(name, {}).get(lang, ""))
        if {key for _, key, _, _ in string.Formatter().parse(text) if key} <= values.keys():
            return _in_their_python(text.format_map(values), report)
    return ""


def _branch(step: Mapping[str, Any], wanted: set[str], values: Mapping[str, str]) -> int:
    """The driver branch that a step installs: `branch` of the recipe (at least that one), else the one in its command; 0: none."""
    told = step.get("branch") or (values.get("branch", "") if "branch" in wanted else "")
    return int(told) if told.isdigit() else 0


def _picked(steps: list[Mapping[str, Any]], values: Mapping[str, str], report: Report) -> dict[str, str]:
    """The values {pick_torch}, {pick_jax} ... that these steps want: an install command chosen for this machine; "" where none
    of its builds runs here, so that no other is named in its stead."""
    wanted = {name for step in steps for _, name, _, _ in string.Formatter().parse(step["run"]) if name and name.startswith("pick_")}
    found = {name: choice.install(name.removeprefix("pick_"), report, values.get("public")) for name in wanted}
    return {name: command for name, command in found.items() if command is not None}


def _in_their_python(run: str, report: Report) -> str:
    """`pip install` aimed at the interpreter that was examined; uv where that environment has no pip."""
    python, packages = report.fact(Python), report.fact(Packages)
    run = run.removeprefix("python -m ") if run.startswith("python -m pip ") else run
    if not (python and python.executable and packages and packages.complete and run.startswith("pip ")):
        return run
    windows = "\\" in python.executable  # a Windows machine's snapshot is told on any other
    place = program = PureWindowsPath(python.executable) if windows else PurePosixPath(python.executable)
    if place.name in ("site-packages", "dist-packages"):  # examined without its interpreter: the environment that holds it
        place = place.parent.parent if windows else place.parent.parent.parent  # Lib\site-packages, lib/python3.11/site-packages
        program = place / ("Scripts/python.exe" if windows else "bin/python")
    if "pip" not in packages.packages:
        return f"uv {run.replace(' uninstall -y', ' uninstall')} --python {_quoted(place)}"
    return f"{_quoted(program)} -m {run}"


def _quoted(path: PurePath) -> str:
    """A path as its own machine's shell takes it: cmd knows no single quotes."""
    if isinstance(path, PureWindowsPath):
        return f'"{path}"' if " " in str(path) else str(path)
    return shlex.quote(str(path))


def _on(step: Mapping[str, Any], platform: str) -> bool:
    on = step["on"]
    return platform == on or platform in on.split()
