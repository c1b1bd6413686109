"""Versions, models and systems that people tell in prose ("Driver: 535.54, CUDA 11.8, RTX 3090, Ubuntu 22.04")."""

import re
from collections.abc import Iterable

from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Python
from ongpu.facts.libraries import Toolkit
from ongpu.model import Evidence, Fact, Source

_DRIVER = re.compile(
    r"(?:nvidia[ -]?(?:gpu |graphics |display )?driver(?: version)?|driver(?:[ _]version)?s?|NVIDIA-SMI|KMD Version|驱动(?:版本)?)"
    r"\s*(?:is|[:=(|])?\s*(?:v|R)?(?P<v>\d{3}\.\d{2,3}(?:\.\d{2})?)\b",
    re.IGNORECASE,
)
_DRIVER_CUDA = re.compile(r"CUDA (?:UMD )?Version\s*:\s*(?P<v>\d{1,2}\.\d{1,2})")
_NVCC = re.compile(r"Cuda compilation tools, release (?P<v>\d{1,2}\.\d{1,2})")
_TOOLKIT = re.compile(r"\bcuda(?:[ _-]?toolkit)?(?: runtime)?(?: version)?\s*(?:is|[:=])?\s*[vV]?(?P<v>\d{1,2}\.\d{1,2})(?:\.\d+)*\b", re.IGNORECASE)
_CUDNN = re.compile(r"\bcudnn(?: version)?\s*(?:is|[:=])?\s*[vV]?(?P<v>\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)\b", re.IGNORECASE)
_PYTHON = re.compile(r"\bpython(?: version| ver\.)?\s*(?:is|[:=])?\s*(?P<v>[23]\.\d{1,2}(?:\.\d{1,2})?)\b", re.IGNORECASE)
_GCC = re.compile(r"\bgcc(?:[ -]version)?\s*(?:\([^)\n]{0,60}\)|[:=])?\s*(?P<v>\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)", re.IGNORECASE)
_DISTRO = re.compile(
    r"\b(?P<name>ubuntu|debian|fedora|centos|rocky|almalinux|rhel|red hat|arch|manjaro|opensuse|nixos|linux ?mint|pop!?_?os|amazon linux)\b"
    r"(?: gnu/linux| linux| enterprise linux)*[ :]*(?P<v>\d{1,2}(?:\.\d{1,2})?)?",
    re.IGNORECASE,
)
_NAMES = {"red hat": "rhel", "linux mint": "linuxmint", "pop!_os": "pop", "pop_os": "pop", "popos": "pop", "amazon linux": "amzn"}
_WINDOWS = re.compile(r"\bWindows(?: |-)?(?:1[01]|[78]|Server)\b|\bwin_amd64\b|\b[A-Z]:\\(?:Users|Windows|Program)|\bPS [A-Z]:\\|\bwin(?:10|11)\b", re.IGNORECASE)
_WSL = re.compile(r"\bWSL ?(?P<v>[12])?\b|microsoft-standard-WSL2|/usr/lib/wsl", re.IGNORECASE)
_WSL1 = re.compile(r"Linux version 4\.4\.0-\d+-Microsoft|4\.4\.0-\d{5}-Microsoft")
_MAC = re.compile(r"\bmac ?os\b|\bDarwin\b|\bmacosx\b|\bApple M\d\b|\bOS X\b|/Users/[\w.]+/|\barm64 \(Apple", re.IGNORECASE)
_ARCH = re.compile(r"\b(?P<v>aarch64|arm64|x86_64|amd64|ppc64le)\b", re.IGNORECASE)
_JETSON = re.compile(r"\b(?:jetson|l4t|jetpack|tegra|orin (?:nano|nx|agx)|agx orin|xavier)\b", re.IGNORECASE)
_PRODUCT = re.compile(r"\b(?P<v>DGX[ -](?:Spark|A100|H100|B200|Station)|GB10|GH200|GB200)\b")
_CLOUD = re.compile(r"\b(?P<v>(?:g[3-6]\w*|p[2-6]\w*|inf[12]|trn[12]|t[23]a?|m[4-7]\w*|c[4-7]\w*)\.(?:\d*x?large|metal|micro|small|medium|nano)|Standard_N[A-Z]\w+|a[23]-(?:high|mega|ultra)gpu-\dg)\b")
_VIRTUAL = re.compile(r"\b(?P<v>vmware|virtualbox|qemu|kvm|hyper-v|xen|proxmox|esxi|unraid)\b", re.IGNORECASE)
_COLAB = re.compile(r"\bcolab\b", re.IGNORECASE)


def read(evidence: Evidence) -> Iterable[Fact]:
    """Whatever versions and names the text tells."""
    text = evidence.text[:300_000]

    def first(pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.search(text)

    driver, cuda = first(_DRIVER), first(_DRIVER_CUDA)
    if driver or cuda:
        yield Driver(
            version=driver["v"] if driver else None,
            cuda=cuda["v"] if cuda else None,
            refs=(
                *((evidence.ref_at(driver.start(), "version"),) if driver else ()),
                *((evidence.ref_at(cuda.start(), "cuda"),) if cuda else ()),
            ),
        )
    nvcc, cudnn, gcc = first(_NVCC), first(_CUDNN), first(_GCC)
    told = next((m for m in _TOOLKIT.finditer(text) if not text[m.start() :].startswith(("CUDA Version", "CUDA UMD"))), None)
    if nvcc or cudnn or told or gcc:
        marks = (("nvcc", nvcc), ("cudnn", cudnn), ("told_cuda", told), ("gcc", gcc))
        yield Toolkit(
            **{name: match["v"] for name, match in marks if match},  # type: ignore[arg-type]
            refs=tuple(evidence.ref_at(match.start(), name) for name, match in marks if match),
        )
    if python := first(_PYTHON):
        yield Python(version=python["v"], refs=(evidence.ref_at(python.start(), "version"),))
    yield from _machine(evidence, text)


def _machine(evidence: Evidence, text: str) -> Iterable[Fact]:
    found: dict[str, object] = {}
    refs = []

    def note(name: str, value: object, match: re.Match[str]) -> None:
        if name not in found:
            found[name] = value
            refs.append(evidence.ref_at(match.start(), name))

    if match := _WSL1.search(text):
        note("wsl", 1, match)
        note("system", "linux", match)
    elif match := _WSL.search(text):
        note("wsl", int(match["v"] or 2), match)
        note("system", "linux", match)
    if match := _DISTRO.search(text):
        name = match["name"].lower()
        note("distribution", _NAMES.get(name, name), match)
        note("system", "linux", match)
        if match["v"]:
            note("distribution_version", match["v"], match)
    if match := _MAC.search(text):
        note("system", "macos", match)
    if match := _WINDOWS.search(text):
        note("system", "windows", match)
    if match := _ARCH.search(text):
        value = match["v"].lower()
        note("architecture", {"arm64": "aarch64", "amd64": "x86_64"}.get(value, value), match)
    if match := _JETSON.search(text):
        note("jetson", True, match)
    if match := _PRODUCT.search(text):
        note("product", match["v"], match)
    if match := _CLOUD.search(text):
        note("cloud", match["v"], match)
    if match := _VIRTUAL.search(text):
        note("virtual", match["v"].lower(), match)
    if match := _COLAB.search(text):
        note("colab", True, match)
    if found:
        yield Machine(**found, refs=tuple(refs))  # type: ignore[arg-type]


SOURCES = (
    Source(kind="prose", read=read, looks_like=lambda evidence: bool(evidence.text), gives=(Driver, Toolkit, Python, Machine)),
)
