"""The kernel's side of the driver: lsmod, modinfo, modprobe's answers, uname, the boot line, Secure Boot, blacklists, module files."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ongpu.facts.driver import Driver, Kernel
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Get, Ref, Source

MAX_TEXT = 400_000
_RELEASE = r"\d{1,2}\.\d{1,3}(?:\.\d{1,4})?[\w.+~-]{0,80}"
# "nvidia_uvm  4956160  0" of lsmod, "nvidia_uvm 4956160 0 - Live 0x0" of /proc/modules; grep may colour, never breaks it
_LSMOD = lazy(r"^\s*(?:.{0,40}?[:#]\s*)?(?P<name>nvidia(?:_\w{1,20}|[-_]current\w*|_\d{3}\w*)?|"
    r"nouveau)\s+\d{4,9}\s+\d{1,6}\b", re.MULTILINE)
_LSMOD_HEAD = lazy(r"^Module\s+Size\s+Used by", re.MULTILINE)
_MODINFO = lazy(r"^(?P<key>filename|version|license|vermagic|signer|sig_id):\s+(?P<value>[^\n]{1,300})$", re.MULTILINE)
_NOT_FOUND = lazy(
    r"modinfo: (?:ERROR|错误)[^\n]{0,20}Module (?:alias )?(?P<a>nvidia\S*) not found|modprobe: (?:FATAL|"
    r"ERROR)[^\n]{0,20}Module (?P<b>nvidia\S*) not found"
    r"|could not find module by name='(?P<c>nvidia\w*)'|Module (?P<d>nvidia\S{0,20}) not found in directory "
    r"(?P<dir>/lib/modules/\S+)",
    re.IGNORECASE,
)
_PROC_MISSING = lazy(r"/proc/driver/nvidia/version['\"’]?(?:: No such file or directory| does not exist)|"
    r"/proc/driver/nvidia['\"’]?: No such file", re.IGNORECASE)
_UNAME_A = lazy(rf"^Linux \S{{1,80}} (?P<v>{_RELEASE}) (?:#|\S+ #)", re.MULTILINE)
_PROC_VERSION = lazy(rf"\bLinux version (?P<v>{_RELEASE})")
_TOLD = lazy(
    r"(?:^|[\s*|,;(])(?:(?:linux|running|host|current)\s+)?kernel(?:\s+(?:version|release))?\s*(?:is|"
    r"[:=])?\s*(?:linux\s+)?v?(?P<v>[2-9]\.\d{1,2}(?:\.\d{1,3})?[\w.+~-]{0,60})",
    re.IGNORECASE,
)
_BEFORE = lazy(r"\bthe (?P<v>[4-7]\.\d{1,2}(?:\.\d{1,3})?) kernel\b", re.IGNORECASE)
_TAINTED = lazy(rf"Tainted: [A-Z ]{{1,30}} (?P<v>{_RELEASE}) #")
_BARE = lazy(r"(?<![\w./-])(?P<v>[2-7]\.\d{1,2}\.\d{1,3}-[\w.~+-]{0,40}?(?:\.(?:el|fc|amzn)\w+\.(?:x86_64|"
    r"aarch64)|-(?:generic|amd64|lowlatency|arch\w*|lts|zen\w*|default|azure|aws|gcp|oem|cloud-amd64|hwe|nvidia|"
    r"tegra|surface)|arch\d+-\d+))(?![\w/-])")
_OTHER = lazy(r"dkms|headers|image|/lib/modules|: (?:installed|added|built)|modules|kernels? for|vmlinuz|"
    r"filename", re.IGNORECASE)
_CMDLINE = lazy(r"(?:BOOT_IMAGE=|Command line:\s*)[^\n]{5,1500}")
_VMLINUZ = lazy(rf"vmlinuz-(?P<v>{_RELEASE})")
_SECURE = lazy(
    r"\bSecure\s?Boot(?: mode)?(?: state)?\s*(?:is|was|[:=])?\s*(?:currently\s+)?(?P<v>enabled|disabled|on|off|"
    r"active|inactive|yes|no)\b|"
    r"(?P<disabled>disabl\w+ secure ?boot|secure ?boot (?:is )?not enabled|turn(?:ed|ing)? off secure ?boot)|"
    r"安全启动[^\n]{0,4}(?P<zh>开启|启用|关闭|禁用)",
    re.IGNORECASE,
)
_LOCKDOWN = lazy(r"Kernel is locked down|kernel_lockdown", re.IGNORECASE)
_BLACKLIST = lazy(r"^\s*(?:[\w./-]{1,120}\.conf:\s*(?:\d+:)?)?(?:blacklist\s+(?P<a>nvidia[\w-]*|nouveau)|"
    r"install\s+(?P<b>nvidia[\w-]*)\s+/bin/(?:false|true)|alias\s+(?P<c>nvidia[\w-]*)\s+off)\s*$", re.MULTILINE)
_BLACKLIST_BOOT = lazy(r"(?:modprobe\.blacklist|module_blacklist|rd\.driver\.blacklist)=(?P<names>[\w,-]{3,"
    r"200})")
_MODULE_FILE = lazy(rf"/lib/modules/(?P<v>{_RELEASE})/[\w./+-]{{0,120}}?/nvidia(?:-current)?(?:[-_](?:uvm|"
    rf"drm|modeset))?\.ko(?:\.(?:xz|zst|gz))?\b")
_NO_BUILD = lazy(rf"/lib/modules/(?P<v>{_RELEASE}?)/(?:build|source)[^\n:'’]{{0,80}}['’]?: No such file", re.IGNORECASE)
_EMPTY = lazy(r"^\W*(?:\(?(?:no output|nothing|empty|none|no result\w*|无输出|空|没有输出|prints nothing|returns "
    r"nothing|shows nothing)[^\n]{0,40})?$", re.IGNORECASE)


def _line(text: str, at: int) -> str:
    end = text.find("\n", at)
    return text[text.rfind("\n", 0, at) + 1 : end if end >= 0 else len(text)]


def _blank(evidence: Evidence) -> bool:
    """Whether a command that was typed printed nothing, or a reader's "(no output)"."""
    lines = evidence.text.split("\n")
    body = lines[1:] if evidence.command and evidence.command in lines[0] else lines
    return all(_EMPTY.match(line.strip()) or line.strip().startswith("#") for line in body)


def _modules(evidence: Evidence, text: str) -> Iterator[Driver]:
    command = evidence.command or ""
    rows = {match["name"].replace("-", "_"): match for match in reversed(list(_LSMOD.finditer(text)))}
    lsmod = "lsmod" in command or "/proc/modules" in command or evidence.origin == "/proc/modules" or bool(_LSMOD_HEAD.search(text))
    greps = re.findall(r"grep\s+(?:-\w+\s+)*[\"']?([^\"'|\n]+)", command)
    asked = " ".join(greps).lower()
    whole = lsmod and not greps and (evidence.kind == "driver-state" or len(text.splitlines()) >= 12)
    empty = lsmod and "lsmod" in command and not rows and _blank(evidence) and bool(greps)
    found: dict[str, Any] = {}
    refs: list[Ref] = []

    def note(field: str, value: bool, match: re.Match[str] | None) -> None:
        found[field] = value
        ref = evidence.ref_at(match.start("name"), field) if match else evidence.ref(evidence.first_line, command or evidence.origin, field)
        refs.append(ref)

    main = next((rows[n] for n in rows if re.fullmatch(r"nvidia(?:_current\w*|_\d{3}\w*)?", n) and not n.endswith("uvm")), None)
    uvm = next((rows[n] for n in rows if n.endswith("uvm")), None)
    helpers = [m for n, m in rows.items() if n != "nouveau"]
    if helpers:
        note("module_loaded", True, main or helpers[0])
    if uvm:
        note("uvm_loaded", True, uvm)
    if "nouveau" in rows:
        note("nouveau_loaded", True, rows["nouveau"])
    about_nvidia = "nvidia" in asked or "nvid" in asked.split() or "nv" in asked.split()
    only_uvm = "uvm" in asked and not re.search(r"nvidia(?![_-])|\bnv\b", asked)
    if lsmod and not helpers and (whole or (empty and about_nvidia and not only_uvm)):
        note("module_loaded", False, None)
    if lsmod and not uvm and (whole or (about_nvidia and (empty or (main is not None and len(rows) > 1)))):
        note("uvm_loaded", False, main)
    if lsmod and "nouveau" not in rows and (whole or ("nouveau" in asked and (empty or rows))):
        note("nouveau_loaded", False, None)
    if found:
        yield Driver(**found, refs=tuple(refs))


def _modinfo(evidence: Evidence, text: str) -> Iterator[Fact]:
    pairs = {m["key"]: m for m in reversed(list(_MODINFO.finditer(text)))}
    name = pairs.get("filename")
    command = evidence.command or ""
    if (name and "nvidia" in name["value"]) or (pairs and not name and "modinfo" in command and "nvidia" in command):
        version, licence = pairs.get("version"), pairs.get("license")
        flavour = None
        if licence and not re.search(r"nvidia[-_](?:uvm|drm|modeset|peermem)", (name["value"] if name else "") + (evidence.command or "")):
            flavour = "open" if "GPL" in licence["value"] else "proprietary" if "NVIDIA" in licence["value"] else None
        plain = re.fullmatch(r"\d{3}\.[\d.]+", version["value"].strip()) if version else None
        refs = tuple(
            evidence.ref_at(m.start(), about) for m, about in ((version, "module_on_disk"), (licence, "flavour"), (name, "on_disk")) if m
        )
        if version or flavour or name:
            yield Driver(module_on_disk=version["value"].strip() if version and plain else None, flavour=flavour, on_disk=True, refs=refs)
        if magic := pairs.get("vermagic"):
            yield Kernel(modules_for=(magic["value"].split()[0],), refs=(evidence.ref_at(magic.start(), "modules_for"),))
    elif "modinfo" in (evidence.command or "") and (bare := re.search(r"^(?P<v>\d{3}\.\d{2,3}(?:\.\d{2})?)\s*$", text, re.MULTILINE)):
        yield Driver(module_on_disk=bare["v"], on_disk=True, refs=(evidence.ref_at(bare.start(), "module_on_disk"),))
    elif "modinfo" in (evidence.command or "") and (bare := re.search(r"^(?P<v>NVIDIA|Dual MIT/GPL)\s*$", text, re.MULTILINE)):
        flavour = "open" if "GPL" in bare["v"] else "proprietary"
        yield Driver(flavour=flavour, on_disk=True, refs=(evidence.ref_at(bare.start(), "flavour"),))


def _absence(evidence: Evidence, text: str) -> Iterator[Driver]:
    if match := _NOT_FOUND.search(text):
        name = next(filter(None, match.group("a", "b", "c", "d")), "")
        if "uvm" not in name.lower():
            yield Driver(on_disk=False, refs=(evidence.ref_at(match.start(), "on_disk"),))
    if match := _PROC_MISSING.search(text):
        yield Driver(module_loaded=False, refs=(evidence.ref_at(match.start(), "module_loaded"),))
    elif evidence.origin == "/proc/driver/nvidia/version" and evidence.problem == "not found":
        yield Driver(module_loaded=False, refs=(evidence.ref(1, "/proc/driver/nvidia/version: not found", "module_loaded"),))


def _kernel(evidence: Evidence, text: str) -> Iterator[Kernel]:
    found: dict[str, Any] = {}
    refs: list[Ref] = []

    def note(field: str, value: object, at: int) -> None:
        if field not in found:
            found[field] = value
            refs.append(evidence.ref_at(at, field))

    if "uname" in (evidence.command or "") and (bare := re.search(rf"^(?P<v>{_RELEASE})\s*$", text, re.MULTILINE)):
        note("release", bare["v"], bare.start())
    for pattern in (_UNAME_A, _PROC_VERSION, _TAINTED, _TOLD, _BEFORE):
        if match := pattern.search(text):
            note("release", match["v"].rstrip(".-"), match.start("v"))
    if not evidence.command and (match := next((m for m in _BARE.finditer(text) if not _OTHER.search(_line(text, m.start()))), None)):
        note("release", match["v"], match.start("v"))
    if match := _CMDLINE.search(text):
        note("booted_with", match[0].strip(), match.start())
        if image := _VMLINUZ.search(match[0]):
            note("release", image["v"], match.start())
    if match := _SECURE.search(text):
        word = (match["v"] or "").lower()
        on = word in ("enabled", "on", "active", "yes") or match["zh"] in ("开启", "启用")
        note("secure_boot", on and not match["disabled"], match.start())
    if match := _LOCKDOWN.search(text):
        note("lockdown", True, match.start())
    if match := _NO_BUILD.search(text):
        note("headers", False, match.start())
    files = list(_MODULE_FILE.finditer(text))[:200]
    releases = tuple(dict.fromkeys(match["v"] for match in files))
    if releases:
        found["modules_for"] = releases
        refs += [evidence.ref_at(match.start(), "modules_for") for match in files[:3]]
    listed = [(m.start(), next(filter(None, m.groups()))) for m in _BLACKLIST.finditer(text)]
    for match in _BLACKLIST_BOOT.finditer(text):
        listed += [(match.start(), name) for name in match["names"].split(",") if name.startswith(("nvidia", "nouveau"))]
    if listed:
        found["blacklisted"] = tuple(dict.fromkeys(name for _, name in listed))
        refs += [evidence.ref_at(at, "blacklisted") for at, _ in listed[:4]]
    if found:
        yield Kernel(**found, refs=tuple(refs))


def read(evidence: Evidence) -> Iterable[Fact]:
    """What is loaded, what lies on disk, and what the kernel was told."""
    text = evidence.text[:MAX_TEXT]
    yield from _modules(evidence, text)
    yield from _modinfo(evidence, text)
    yield from _absence(evidence, text)
    yield from _kernel(evidence, text)


_MARKS = (
    "nvidia", "nouveau", "kernel", "linux version", "secure", "vmlinuz", "安全启动", "tainted", "-generic", "-amd64", ".el", "-arch", ".fc",
)  # fmt: skip


def looks_like(evidence: Evidence) -> bool:
    """Whether a kernel, a module or Secure Boot may be told in it."""
    low = evidence.text.lower()
    command = evidence.command or ""
    return any(word in low for word in _MARKS) or any(word in command for word in ("uname", "lsmod", "modinfo", "mokutil", "modprobe"))


SOURCES = (
    Source(
        kind="driver-state", read=read, looks_like=looks_like, gives=(Driver, Kernel),
        get=(Get(path="/proc/modules", only="linux"), Get(path="/proc/cmdline", only="linux"),
             Get(argv=("modinfo", "nvidia"), only="linux"),
             Get(path="/proc/driver/nvidia/version", only="linux")),
        settle="lsmod | grep -E 'nvidia|nouveau'; modinfo nvidia; uname -r; mokutil --sb-state",
    ),
)
