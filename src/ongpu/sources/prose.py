"""Versions, models and systems that people tell in prose ("Driver: 535.54, CUDA 11.8, RTX 3090, Ubuntu 22.04")."""

import re
from collections.abc import Iterable

from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Python
from ongpu.facts.libraries import Toolkit
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Source

# What is asked for is not what is there: "needs driver 455.41", "requires NVIDIA driver 525.60 or newer"
_DRIVER = lazy(
    r"(?<!needs )(?<!need )(?<!requires )(?<!require )(?<!wants )(?<!at least )(?<!needs the )(?<!needs an )(?<!requires an )(?<!requires the )"
    r"(?:nvidia[ -]?(?:gpu |graphics |display )?driver(?: version)?|driver(?:[ _]version)?s?|NVIDIA-SMI|KMD Version|驱动(?:版本)?)"
    r"\s*(?:is|==|[:=(|])?\s*(?:v|R)?(?P<v>\d{3}\.\d{2,3}(?:\.\d{2,3})?)\b",
    re.IGNORECASE,
)
# Packages and folders that carry the driver's version: nvidia-open 580.95.05, nvidia-dkms-570 570.86.16-0ubuntu1, NVIDIA-Linux-x86_64-550.54.14.run
_DRIVER_PACKAGE = lazy(
    r"\bnvidia(?:-(?:open|driver|dkms|utils|kernel|graphics|lts|beta|linux|x86_64|aarch64|open-dkms|\d{3}(?:xx)?(?:-server)?(?:-open)?))*"
    r"(?:[ :=/-]+|\s+\()v?(?P<v>\d{3}\.\d{2,3}(?:\.\d{2,3})?)(?=[-\s,;:)./]|$)(?![.\d]*\s*(?:MiB|GB|W\b|ms))",
    re.IGNORECASE,
)
_OPEN = lazy(
    r"\bnvidia-(?:driver-\d{3}(?:-server)?-|dkms-\d{3}(?:-server)?-|kernel-source-\d{3}(?:-server)?-|\d{3}(?:-server)?-)?open\b|"
    r"\bdriver(?: version)?\s*[:=]?\s*v?\d{3}\.[\d.]+\s*\(?(?:-|with |using )?(?:the )?open\b|\bopen[- ](?:gpu[- ])?kernel[- ]modules?\b(?! (?:for|is required|are required|instead|needed))|"
    r"NVIDIA UNIX Open Kernel Module|开源内核模块",
    re.IGNORECASE,
)
_PLAIN = lazy(r"\bnvidia-(?:driver|dkms)-\d{3}(?:-server)?(?![\w-]*open)\b|\bdistro non-free\b", re.IGNORECASE)
_CLOSED = lazy(
    r"\bdriver(?: version)?\s*[:=]?\s*v?\d{3}\.[\d.]+\s*\(?(?:proprietary|closed)|\bproprietary (?:kernel modules?|driver)\b|NVIDIA UNIX x86_64 Kernel Module|闭源(?:驱动|内核模块)",
    re.IGNORECASE,
)
_DRIVER_CUDA = lazy(r"CUDA (?:UMD )?Version\s*:\s*(?P<v>\d{1,2}\.\d{1,2})")
_NVCC = lazy(
    r"(?:Cuda compilation tools, release |\bnvcc[^\n]{0,60}?release |\bnvcc(?: --version| -V| version| is| says| reports| gives| shows|[:=(]| )*"
    r"(?:cuda[ _])?[vV]?)(?P<v>\d{1,2}\.\d{1,2})(?![\d]*[-\w])",
    re.IGNORECASE,
)
_TOOLKIT = lazy(r"\bcuda(?:[ _-]?toolkit)?(?: runtime)?(?: version)?\s*(?:is|[:=])?\s*[vV]?(?P<v>\d{1,2}\.\d{1,2})(?:\.\d+)*\b", re.IGNORECASE)
_FOLDER = lazy(r"^[^\n]{0,80}?(?<![\w.-])cuda-(?P<v>\d{1,2}\.\d{1,2})(?=[/\s]|$)", re.MULTILINE)  # as `ls /usr/local` lists it
_CUDNN = lazy(r"\bcudnn(?: version)?\s*(?:is|[:=@-])?\s*[vV]?(?P<v>\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)\b", re.IGNORECASE)
# issue forms: "CUDA/cuDNN version: 10.1 / 7.6", "### CUDA/cuDNN version\n\n11.2/8.1", "CUDA v11.2, cudnn-11.2-windows-x64-v8.1.0.77"
_FORM = lazy(
    r"CUDA ?/ ?cuDNN version[ \t*:=\-]*\n{0,3}[ \t]*(?:CUDA)?[ \t:vV=\-]*(?P<v>\d{1,2}\.\d{1,2})(?:[ ]*[/,&][ ]*(?:cudnn)?[ :vV=\-]*(?P<d>\d{1,2}\.\d{1,2}(?:\.\d+)?)(?!-))?"
    r"|cudnn-\d{1,2}\.\d-(?:windows|linux)\w*-x64-v(?P<d2>\d\.\d{1,2}(?:\.\d+)?)",
    re.IGNORECASE,
)
_PYTHON = lazy(
    r"(?:\bpython[ _-]?(?:version| ver\.)?\s*(?:is|[:=]{1,2}|v)?\s*|\bC?Python |^py -V\s+Python )(?P<v>[23]\.\d{1,2}(?:\.\d{1,2})?)\b"
    r"|\b(?:using|found) CPython (?P<v2>3\.\d{1,2})",
    re.IGNORECASE,
)
_GCC = lazy(
    r"\b(?:gcc|g\+\+)(?:[ -]version)?\s*(?:\([^)\n]{0,60}\)|[:=-])?\s*(?P<v>\d{1,2}(?:\.\d{1,2}(?:\.\d{1,2})?)?)\b(?! ?(?:or|and|/|\+|is not|are not))",
    re.IGNORECASE,
)
_DISTRO = lazy(
    r"\b(?P<name>ubuntu|debian|fedora|centos|rocky|almalinux|rhel|red hat|arch|manjaro|opensuse|nixos|linux ?mint|pop!?_?os|amazon linux)\b"
    r"(?: gnu/linux| linux| enterprise linux)*[ :]*(?P<v>\d{1,2}(?:\.\d{1,2})?)?",
    re.IGNORECASE,
)
_NAMES = {"red hat": "rhel", "linux mint": "linuxmint", "pop!_os": "pop", "pop_os": "pop", "popos": "pop", "amazon linux": "amzn"}
_WINDOWS = lazy(r"(?<!supported )(?<!available )(?<!work )(?<!works )\b(?:on|my|using|under) windows\b(?! (?:of|per|with) )(?! subsystem)(?! host)(?! \d)|(?-i:(?<!native )(?<!supported on )(?<!Microsoft )\bWindows\b(?=[ ,.;:)\n]|$)(?! (?:Subsystem|host|driver|side|Kernel|API|of the|of \d|are|per))(?! size))|\bWindows(?: |-)?(?:1[01]|[78]|Server)\b|\bwin_amd64\b|\b[A-Z]:\\(?:Users|Windows|Program)|\bPS [A-Z]:\\|\bwin(?:10|11)\b", re.IGNORECASE)
_WSL = lazy(r"(?<!non-)(?<!non )(?<!not )(?<!not in )(?<!no )(?<!without )(?<!\(not )\bWSL[ -]?(?P<v>[12])?\b(?!\)? *environment)(?!\s*[:=]\s*(?:no|false|0)\b)|microsoft-standard-WSL2|/usr/lib/wsl", re.IGNORECASE)
_WSL1 = lazy(r"Linux version 4\.4\.0-\d+-Microsoft|4\.4\.0-\d{5}-Microsoft")
_MAC = lazy(r"(?<![A-Za-z/])Mac(?:Book)? ?(?:M\d|Pro|Air|mini|Studio)(?![A-Za-z])|(?<![A-Za-z/])mac (?:OS )?1\d\.\d|\bmac ?os\b|\bDarwin\b|\bmacosx\b|\bApple M\d\b|\bOS X\b|/Users/[\w.]+/|\barm64 \(Apple", re.IGNORECASE)
_ARCH = lazy(r"\b(?P<v>aarch64|arm64|x86_64|amd64|ppc64le)\b", re.IGNORECASE)
_JETSON = lazy(r"\b(?:jetson\w*|l4t|jetpack|tegra|orin[ -]?(?:nano|nx|agx)|agx[ -]?orin|xavier)\b", re.IGNORECASE)
_PRODUCT = lazy(r"\b(?P<v>DGX[ -](?:Spark|A100|H100|B200|Station)|GB10|GH200|GB200)\b")
_CLOUD = lazy(r"\b(?P<v>(?:g[3-6]\w*|p[2-6]\w*|inf[12]|trn[12]|t[23]a?|m[4-7]\w*|c[4-7]\w*)\.(?:\d*x?large|metal|micro|small|medium|nano)|Standard_N[A-Z]\w+|a[23]-(?:high|mega|ultra)gpu-\dg)\b")
_VIRTUAL = lazy(r"\b(?P<v>vmware|virtualbox|qemu|kvm|hyper-v|xen|proxmox|esxi|unraid)\b", re.IGNORECASE)
_COLAB = lazy(r"\bcolab\b", re.IGNORECASE)


def read(evidence: Evidence) -> Iterable[Fact]:
    """Whatever versions and names the text tells."""
    text = evidence.text[:300_000]

    def first(pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.search(text)

    driver, cuda = first(_DRIVER) or first(_DRIVER_PACKAGE), first(_DRIVER_CUDA)
    opened, closed = first(_OPEN), first(_CLOSED)
    both = (opened and closed) or (opened and first(_PLAIN))  # a comparison, or a list of what there is
    flavour = None if both else opened or closed
    if driver or cuda or flavour:
        yield Driver(
            version=driver["v"] if driver else None,
            cuda=cuda["v"] if cuda else None,
            flavour=("open" if flavour is opened else "proprietary") if flavour else None,
            refs=(
                *((evidence.ref_at(driver.start(), "version"),) if driver else ()),
                *((evidence.ref_at(cuda.start(), "cuda"),) if cuda else ()),
                *((evidence.ref_at(flavour.start(), "flavour"),) if flavour else ()),
            ),
        )
    form = first(_FORM)
    nvcc, cudnn, gcc = first(_NVCC), first(_CUDNN), first(_GCC)
    told = next((m for m in _TOOLKIT.finditer(text) if not text[m.start() :].startswith(("CUDA Version", "CUDA UMD"))), None)
    if form and not (told and cudnn):
        cuda_told, cudnn_told = None if told else form["v"], None if cudnn else form["d"] or form["d2"]
        if cuda_told or cudnn_told:
            names = (*(("told_cuda",) if cuda_told else ()), *(("cudnn",) if cudnn_told else ()))
            refs = tuple(evidence.ref_at(form.start(), name) for name in names)
            yield Toolkit(told_cuda=cuda_told, cudnn=cudnn_told, refs=refs)
    folders = {match["v"]: match for match in _FOLDER.finditer(text)} if (evidence.command or "").lstrip().startswith(("ls", "sudo ls", "find")) else {}
    if folders:
        yield Toolkit(installed=tuple(f"/usr/local/cuda-{v}" for v in folders), refs=tuple(evidence.ref_at(m.start(), "installed") for m in folders.values()))
    if nvcc or cudnn or told or gcc:
        marks = (("nvcc", nvcc), ("cudnn", cudnn), ("told_cuda", told), ("gcc", gcc))
        yield Toolkit(
            **{name: match["v"] for name, match in marks if match},  # type: ignore[arg-type]
            refs=tuple(evidence.ref_at(match.start(), name) for name, match in marks if match),
        )
    if python := first(_PYTHON):
        yield Python(version=python["v"] or python["v2"], refs=(evidence.ref_at(python.start(), "version"),))
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
