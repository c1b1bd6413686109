"""The distribution's driver packages: what is installed, what was upgraded, and what NVIDIA's own .run installer left."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ongpu.facts.driver import SystemPackages
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Get, Ref, Source

_OURS = lazy(
    r"^(?:lib)?nvidia|^xserver-xorg-video-nvidia|^cuda(?:-drivers|-compat|$|-toolkit|-\d|-runtime)|"
    r"^linux-(?:modules|headers|image|objects|signatures)|"
    r"^(?:a?kmod|dkms|kernel)-?(?:nvidia|devel|headers|open)|^xorg-x11-drv-nvidia|^kernel-devel|^libcudnn|"
    r"^libcuda|^firmware-nvidia|^firmware-misc|^datacenter-gpu|^nvidia|^dkms$|"
    r"^lib32-nvidia|^libnvidia|^libnv|^linux-nvidia|^libxnvctrl"
)
_DPKG = lazy(r"^\s*(?P<state>[a-zA-Z]{2,3})\s+(?P<name>[a-z0-9][\w.+-]{1,"
    r"80})(?::\w+)?\s+(?P<version>\d[\w.:~+-]{0,80})(?=\s|$)", re.MULTILINE)
_APT = lazy(r"^(?P<name>[a-z0-9][\w.+-]{1,80})/[\w,.-]{2,60}\s+(?P<version>\d[\w.:~+-]{0,"
    r"80})\s+\w+\s+\[(?P<state>[^\]\n]{2,80})\]", re.MULTILINE)
_RPM = lazy(
    r"^\s*(?P<name>(?:a?kmod-|xorg-x11-drv-|lib)?(?:nvidia|cuda|kmod-nvidia|nvidia-driver)[\w+.-]{0,60}?|"
    r"kernel-(?:devel|headers|core)|dkms)-(?:\d:)?(?P<version>\d[\w.+~^]{0,50}-[\w.+~^]{1,60})\.(?:x86_64|aarch64|"
    r"noarch|i686)\s*$",
    re.MULTILINE,
)
_DNF = lazy(r"^(?P<name>[a-z][\w.+-]{1,80})\.(?:x86_64|aarch64|noarch)\s+(?:\d:)?(?P<version>\d[\w.+~^-]{2,"
    r"80})\s+@?\S+\s*$", re.MULTILINE)
_PACMAN = lazy(r"^(?:local/)?(?P<name>(?:lib32-)?(?:nvidia|opencl-nvidia|linux|cuda|egl)[a-z0-9-]{0,"
    r"40})\s+(?P<version>\d[\w.:+-]{1,40}-\d[\d.]{0,5})(?:\s+\[installed\])?\s*$", re.MULTILINE)
# `dpkg-query -W` and /var/log/apt: "nvidia-driver-550:amd64 550.107.02-0ubuntu0.24.04.1", with no state before it
_BARE = lazy(r"^\s*(?P<name>(?:lib)?nvidia-[\w.+-]{1,60}):(?:amd64|arm64|i386|all)[ \t=]+\(?(?P<version>\d{3}\.\d[\w.:~+-]{0,60}-\w[\w.~+-]{0,40})\)?\s*$", re.MULTILINE)
_APT_UPGRADE = lazy(r"(?P<name>[a-z0-9][\w.+-]{1,80}):\w{3,6} \((?P<old>[\w.:~+-]{1,80}), "
    r"(?!automatic\))(?P<new>[\w.:~+-]{1,80}?)(?:, automatic)?\)")
_DPKG_UPGRADE = lazy(r"^[\d -]{8,12}[\d: ]{6,12} upgrade (?P<name>[a-z0-9][\w.+-]{1,80}):\w+ (?P<old>\S{1,"
    r"80}) (?P<new>\S{1,80})", re.MULTILINE)
_UNPACK = lazy(r"Unpacking (?P<name>[a-z0-9][\w.+-]{1,80})(?::\w+)? \((?P<new>[\w.:~+-]{1,80})\) over "
    r"\((?P<old>[\w.:~+-]{1,80})\)")
_ALPM = lazy(r"\[ALPM\] upgraded (?P<name>[a-z][\w.+-]{1,60}) \((?P<old>\S{1,60}) -> (?P<new>\S{1,60})\)")
_ZYPP = lazy(r"^[\d-]{10} [\d:]{8}\|install\|(?P<name>[\w.+-]{1,80})\|(?P<new>[\w.+~-]{1,60})\|", re.MULTILINE)
_RUN = lazy(r"NVIDIA-Linux-(?:x86_64|aarch64|sbsa|x86)-(?P<v>\d{3}\.\d{2,3}(?:\.\d{2})?)[\w.-]{0,24}\.run|"
    r"NVIDIA-Linux-\S{0,40}\.run|cuda_\d+\.\d+\.\d+_(?P<c>\d{3}\.\d{2,3}(?:\.\d{2})?)_linux(?:_sbsa)?\.run")
_RUN_LEFT = lazy(r"(?<![\w.])(?:/usr/bin/nvidia-(?:uninstall|installer)|/var/log/nvidia-installer\.log|"
    r"nvidia-installer log file|nvidia-uninstall)")
_RUN_ABSENT = lazy(r"No such file|not found|cannot access", re.IGNORECASE)
_SOURCE_TREE = lazy(r"open-gpu-kernel-modules[-/](?:tags/)?v?(?P<v>\d{3}\.\d{2,3}(?:\.\d{2})?)")
_LIBRARY = lazy(r"(?:^|[\s>(])/\S{0,120}?/lib(?:cuda|nvidia-ml)\.so\.(?P<v>\d{3}\.\d{2,3}(?:\.\d{2})?)\b")
_TELLING = lazy(r"nvidia|cuda|^linux(?:-image|-lts|-zen)?$|^linux-(?:image|modules)")
_WHOLE = lazy(r"(?:dpkg (?:-l|--list)\b|apt list --installed|rpm -qa|pacman -Qs? ?|dnf list "
    r"(?:--)?installed|yum list installed|zypper se -i)[^\n]*(?:nvidia|$)", re.IGNORECASE)
_FAIL_STATES = ("rc", "iF", "iU", "iH", "if", "iu", "ih", "it", "iW")


def _listed(evidence: Evidence, text: str) -> Iterator[tuple[str, str, str, int]]:
    """(name, version, state, offset) of each package in a list."""
    for match in _DPKG.finditer(text):
        state = match["state"]
        if state[0] in "iruph" and len(state) in (2, 3) and state[1] in "icnFUHWt" and _OURS.search(match["name"]):
            yield match["name"], match["version"], state[:2], match.start("state")
    for match in _APT.finditer(text):
        if "installed" in match["state"] and _OURS.search(match["name"]):
            yield match["name"], match["version"], "ii", match.start("name")
    for pattern in (_RPM, _DNF, _PACMAN, _BARE):
        for match in pattern.finditer(text):
            if _OURS.search(match["name"]) or "nvidia" in match["name"]:
                yield match["name"], match["version"], "ii", match.start("name")


def _upgrades(text: str) -> Iterator[tuple[str, int]]:
    for pattern in (_APT_UPGRADE, _DPKG_UPGRADE, _UNPACK, _ALPM):
        for match in pattern.finditer(text):
            if _TELLING.search(match["name"]) and match["old"] != match["new"]:
                yield f"{match['name']} {match['old']} -> {match['new']}", match.start("name")
    for match in _ZYPP.finditer(text):
        if "nvidia" in match["name"]:
            yield f"{match['name']} -> {match['new']}", match.start("name")


def read(evidence: Evidence) -> Iterable[Fact]:
    """Driver packages, their upgrades, and signs of the .run installer."""
    text = evidence.text[:600_000]
    found: dict[str, Any] = {}
    refs: list[Ref] = []
    packages: dict[str, str] = {}
    half: list[str] = []
    for name, version, state, at in _listed(evidence, text):
        if state in _FAIL_STATES:
            half.append(f"{name} {version} ({state})")
        else:
            packages.setdefault(name, version)
        if len(refs) < 8:
            refs.append(evidence.ref_at(at, "packages" if state not in _FAIL_STATES else "half_installed"))
    if packages:
        found["packages"] = packages
    if half:
        found["half_installed"] = tuple(dict.fromkeys(half))[:40]
    command = evidence.command or ""
    if _WHOLE.search(command) and "not found" not in text[-200:]:
        found["listed"] = True
        if not packages and not half:
            refs.append(evidence.ref(evidence.first_line, command, "packages"))
    elif evidence.kind == "system-packages" and evidence.command and not evidence.problem:
        found["listed"] = True
    ups = list(_upgrades(text))
    if ups:
        found["upgrades"] = tuple(dict.fromkeys(words for words, _ in ups))[:20]
        refs += [evidence.ref_at(at, "upgrades") for _, at in ups[:3]]
        if match := re.search(r"unattended-upgrades?", text):
            found["unattended"] = True
            refs.append(evidence.ref_at(match.start(), "upgrades"))
    _runfile(evidence, text, found, refs)
    if match := _SOURCE_TREE.search(text):
        found["source_version"] = match["v"]
        refs.append(evidence.ref_at(match.start(), "source_version"))
    files = [m for m in _LIBRARY.finditer(text) if "compat" not in m[0] and "/wsl/" not in m[0]]
    if files:
        found["library_versions"] = tuple(dict.fromkeys(m["v"] for m in files))[:6]
        refs += [evidence.ref_at(m.start("v"), "library_versions") for m in files[:3]]
    if found:
        yield SystemPackages(**found, refs=tuple(dict.fromkeys(refs)))


def _runfile(evidence: Evidence, text: str, found: dict[str, Any], refs: list[Ref]) -> None:
    signs: list[str] = []
    if match := _RUN.search(text):
        signs.append(match[0])
        refs.append(evidence.ref_at(match.start(), "runfile"))
        if version := match["v"] or match["c"]:
            found["runfile_version"] = version
    for match in _RUN_LEFT.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.end())
        line = text[start : end if end >= 0 else len(text)]
        typed = bool(evidence.command and evidence.command in line and start == 0)
        if _RUN_ABSENT.search(line) or (typed and ("ls " in line or "which" in line or "sudo" in line)):
            continue
        signs.append(match[0])
        refs.append(evidence.ref_at(match.start(), "runfile"))
    if signs:
        found["runfile"] = tuple(dict.fromkeys(signs))[:6]


def looks_like(evidence: Evidence) -> bool:
    """Whether a package list, an update log or a .run installer may stand in it."""
    low = evidence.text.lower()
    return "nvidia" in low or "cuda" in low or bool(_WHOLE.search(evidence.command or ""))


SOURCES = (
    Source(
        kind="system-packages", read=read, looks_like=looks_like, gives=(SystemPackages,),
        get=(Get(call="packages:ask", limit=8.0, only="linux"),),
        settle="dpkg -l | grep -i nvidia; ls /usr/bin/nvidia-uninstall",
    ),
)
