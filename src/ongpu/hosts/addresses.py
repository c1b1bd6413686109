"""Where a text names a machine by its address, and where four numbers are a version or a name stands for the public: told by context."""

import ipaddress
import re

from ongpu.lazy import lazy

IPV4 = lazy(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
IPV6 = lazy(r"(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}(?:[0-9a-f]{1,4}|(?<=::))(?!\w|:[\w:])", re.IGNORECASE)
CLOUD = lazy(r"\bip-\d{1,3}(?:-\d{1,3}){3}\b(?:\.[\w.-]{1,100}\binternal\b)?|\b(?:DESKTOP-[A-Z0-9]{5,8}|LAPTOP-[A-Z0-9]{6,9}|WIN-[A-Z0-9]{8,12})\b")
URL = lazy(r"(?P<scheme>\b[a-z][a-z0-9+.-]{1,20}://)(?P<login>[^\s/@\"']{1,300}@)?(?P<host>[^\s/:\"'?#,;)\]}>\\\[@]{1,253})", re.IGNORECASE)
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
DOMAIN = lazy(
    rf"(?<![\w.%-])(?:{_LABEL}\.){{1,7}}(?:com|edu|gov|mil|org|net|internal|local|lan|intra|intranet|corp|cluster|localdomain|arpa"
    r"|(?:ac|edu|co|com|gov|org|net)\.[a-z]{2}|de|fr|ch|uk|nl|eu|cn|jp|kr|ru|it|ca)(?![\w(\[=-]|\.\w)(?P<after>:\d|:?/)?",
    re.IGNORECASE,
)
_SURE = ("com", "edu", "gov", "mil")  # as the end of two labels no Python name and no file has them
_ACADEMIC = lazy(r"\.(?:edu\.[a-z]{2}|ac\.(?:uk|jp|cn|kr|at|be|nz|za|il|th|in|ir|id|cy))$", re.IGNORECASE)  # as the end of three labels likewise
# Names of the public network that repairs and install logs speak of.
_PUBLIC = lazy(
    r"(?:^|\.)(?:pytorch\.org|nvidia\.(?:com|cn)|nvidia\.github\.io|github\.com|github\.io|githubusercontent\.com|gitlab\.com|pypi\.org|pythonhosted\.org|"
    r"python\.org|huggingface\.co|docker\.(?:io|com)|nvcr\.io|ghcr\.io|gcr\.io|quay\.io|k8s\.io|kubernetes\.io|ubuntu\.com|debian\.org|canonical\.com|"
    r"launchpad\.net|launchpadcontent\.net|anaconda\.(?:org|com)|conda\.io|conda-forge\.org|tensorflow\.org|keras\.io|google\.com|googleapis\.com|"
    r"microsoft\.com|apple\.com|readthedocs\.io|stackoverflow\.com|paddlepaddle\.org(?:\.cn)?|bcebos\.com|tsinghua\.edu\.cn|ustc\.edu\.cn|mirrors?\.[a-z]{2,12}\.edu\.cn|aliyun\.com|"
    r"kernel\.org|freedesktop\.org|fedoraproject\.org|redhat\.com|centos\.org|rockylinux\.org|archlinux\.org|opensuse\.org|rpmfusion\.org|elrepo\.org|"
    r"wandb\.ai|arxiv\.org|w3\.org|astral\.sh|modelscope\.cn|onnxruntime\.ai|vllm\.ai|ollama\.(?:com|ai)|lightning\.ai|jax\.dev|docs\.rs|intel\.com|amd\.com)$",
    re.IGNORECASE,
)
_ASSIGNED = lazy(r"(?:[=<>~!]=|:amd64[ =(]{1,3})$")
_VERSION_WORD = lazy(r"vers|release|firmware|bios|inforom|driver|toolkit|wheel|package|\bv$|^v\d", re.IGNORECASE)
_CHINESE_VERSION = lazy(r"(?:版本|固件|升级|降级|更新|回退)(?:号|为|是|到|至)?[\s:：=（(「]{0,4}[vV]?$")
_LIBRARY = lazy(
    r"cu(?:blas|dnn|da|fft|rand|solver|sparse|tensor|pti|file|quantum)|^nv|nvidia|nccl|\bnpp|tensorrt|\btrt|opencv|^lib|torch|paddle|onnx|triton|\bmkl|\btbb|"
    r"\bdali|openvino|python|^cu\d\d$|vulkan|optix",
    re.IGNORECASE,
)
_ADDRESSED = lazy(
    r"(?:\b(?:inet6?|addr\w*|ip\w*|hosts?|hostname|from|to|at|on|server|peer|gateway|nameservers?|ping|ssh|scp|connect\w*|bind|bound|listen\w*|nodes?|via|dns|"
    r"master|rank\w*|worker|proxy|endpoint|remote|client|subnet|route|sent|mount)\W{1,3})$",
    re.IGNORECASE,
)
_NAMED = lazy(r"(?:@|//|_(?:addr|host|ip|server|comm_id)[=:\"' ]{1,4})$", re.IGNORECASE)
_WORDS = lazy(r"[A-Za-z][\w.+-]*")
_LISTED = lazy(r"^[ \t]*(?:ii[ \t]+)?(?P<name>[A-Za-z][\w.+:-]{1,60})[ \t]{1,60}\(?$")
_FROM_VERSIONS = lazy(r"versions?\b[^\n]{0,400}$", re.IGNORECASE)


def is_public(host: str) -> bool:
    """Whether the name is of the public network, or of no machine at all (localhost, a file's name)."""
    return host.lower().rstrip(".") in ("localhost", "localhost.localdomain", "unix", "") or _PUBLIC.search(host.rstrip(".")) is not None


def names_machine(match: "re.Match[str]") -> bool:
    """Whether what looks like a domain is one: Python names with dots in them (self.model.net) are not."""
    name = match[0].removesuffix(match["after"] or "")
    labels = name.lower().split(".")
    if is_public(name) or name.startswith("ip-"):
        return False
    if labels[-1] in _SURE or match["after"] or _ACADEMIC.search(name):
        return labels[-1] in _SURE or len(labels) > 2
    return len(labels) > 2 and any(c.isdigit() or c == "-" for c in name)


def is_address6(text: str) -> bool:
    """Whether it is an IPv6 address of some machine; C++ names (at::add) and the loopback are not."""
    if "::" not in text and text.count(":") < 4:
        return False
    if text.strip(":0") in ("", "1") or not re.search(r"\d|^f[ce]", text):
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return "::" not in text and len(text) > 11  # eight groups at most, with a port behind them; a GUID
    return True


def is_address4(match: "re.Match[str]") -> bool:
    """Whether four numbers are an address of some machine, and not a version ("cudnn 9.1.0.70", "nvidia-cublas-cu12==12.4.5.8")."""
    parts = match[0].split(".")
    if any(int(part) > 255 or (len(part) > 1 and part[0] == "0") for part in parts):
        return False
    if parts[0] in ("0", "127") or match[0].startswith("255.255."):
        return False
    start = match.string.rfind("\n", 0, match.start()) + 1
    line = match.string[max(start, match.start() - 400) : match.start()]
    after = match.string[match.end() : match.end() + 12]
    if _ASSIGNED.search(line[-24:]) or re.match(r"[-+~](?:\d{1,3}(?![\d.])|[a-z])", after):
        return False
    words = _WORDS.findall(line[-60:])
    if re.match(r":\d{2,5}\b|/\d{1,2}\b|:/", after) or _NAMED.search(line[-24:]):
        return True
    if _CHINESE_VERSION.search(line[-16:]):
        return False
    if _ADDRESSED.search(line[-24:]):  # but "nvidia-cublas-cu12 from 12.1.3.1 to 12.4.5.8"
        return int(parts[0]) > 13 or not any(_LIBRARY.search(word) for word in words)
    words = words[-2:]
    if any(_LIBRARY.search(word) for word in words) or (words and _VERSION_WORD.search(words[-1])) or _FROM_VERSIONS.search(line):
        return False
    return not (int(parts[0]) < 14 and parts[0] != "10" and _LISTED.search(line) and re.match(r"\)?(?:[ \t]|$|\n|,)", after))
