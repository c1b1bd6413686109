"""PyTorch releases: builds, the GPUs a build carries code for, Python versions and companions. Tables and predicates only."""

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from ongpu.knowledge._tables import table
from ongpu.knowledge._versions import capability_numbers, cuda_numbers, numbers
from ongpu.lazy import dataclass, field

COMPANIONS = ("torchvision", "torchaudio", "xformers")
PLATFORMS = ("linux_x86_64", "linux_aarch64", "windows_x86_64", "windows_arm64", "macos_arm64", "macos_x86_64")


@dataclass(frozen=True, slots=True)
class Release:
    """One release. Capabilities are strings such as '8.6'; a companion's first version is the one to install."""

    version: str
    python_min: str
    python_max: str
    default_build: str  # of the wheel on PyPI for Linux x86_64
    builds: tuple[str, ...]  # CUDA builds on the wheel index
    archs: Mapping[str, tuple[str, ...]]  # build -> capabilities it holds machine code for
    glibc: str  # oldest C library its Linux wheels accept
    ptx: Mapping[str, str] = field(default_factory=dict)  # build -> capability of the PTX it holds
    companions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)  # versions of NVIDIA's libraries and triton in the default build
    python_max_elsewhere: str | None = None  # on other platforms than Linux x86_64
    no_wheel_on: tuple[str, ...] = ()  # platforms left out, against the rule of [platforms]
    builds_confirmed: bool = True


@cache
def releases() -> tuple[Release, ...]:
    """All releases of the table (1.8.0 and newer), newest first."""
    found = []
    for row in table("torch")["release"]:
        row = dict(row)
        companions = {name: tuple(row.pop(name)) for name in COMPANIONS if name in row}
        archs = {build: tuple(text.split()) for build, text in row.pop("archs").items()}
        builds, no_wheel_on = tuple(row.pop("builds")), tuple(row.pop("no_wheel_on", ()))
        found.append(Release(**row, builds=builds, no_wheel_on=no_wheel_on, archs=archs, companions=companions))
    return tuple(found)


def _public(version: str) -> str:
    """'v2.1.2+cu118' -> '2.1.2', '2.1' -> '2.1.0'."""
    plain = version.strip().lower().removeprefix("v").partition("+")[0]
    return plain + ".0" if plain.count(".") == 1 else plain


def release(version: str) -> Release | None:
    """The release of a version as torch prints it ('2.1.2+cu118'); None for nightlies and unknown versions."""
    return next((one for one in releases() if one.version == _public(version)), None)


def build_of(version: str) -> str | None:
    """The build that a version names: '2.1.2+cu118' -> 'cu118', '2.3.0+cpu' -> 'cpu'; None when it names none."""
    return version.strip().partition("+")[2].partition(".")[0].lower() or None


def builds(version: str) -> tuple[str, ...]:
    """CUDA builds of a release on the wheel index, oldest CUDA first; () when the release is unknown."""
    found = release(version)
    return found.builds if found else ()


def archs(version: str, build: str, platform: str = "linux_x86_64") -> tuple[str, ...] | None:
    """Capabilities ('8.6') that a build holds machine code for, and '12.0+PTX' where it holds PTX; None when unknown."""
    found = release(version)
    if found is None or build not in found.archs:
        return None
    if platform == "linux_aarch64":
        other = table("torch")["aarch64"].get(build)
        return tuple(other.split()) if other else None
    ptx = found.ptx.get(build)
    return (*found.archs[build], f"{ptx}+PTX") if ptx else found.archs[build]


def cudnn(version: str, build: str) -> str | None:
    """The cuDNN that a build brings: '9.1.0.70'; None when unknown."""
    found = release(version)
    if found is None:
        return None
    if build == found.default_build:
        return found.pins.get("cudnn")
    since = [(first, one) for first, one in table("torch")["cudnn"].get(build, {}).items() if numbers(first) <= numbers(found.version)]
    return max(since, key=lambda pair: numbers(pair[0]))[1] if since else None


def _entry(arch: str) -> tuple[tuple[int, int], bool, bool, str] | None:
    """'sm_90a' -> ((9, 0), code, no ptx, 'a')."""
    text = arch.strip().lower()
    is_ptx = text.startswith("compute") or text.endswith("+ptx")
    text = text.removesuffix("+ptx")
    found = capability_numbers(text)
    return (found, not text.startswith("compute"), is_ptx, text[-1] if text[-1:].isalpha() else "") if found else None


def runs(archs: Iterable[str], capability: str, cuda: str | None = None) -> bool:
    """Whether code built for `archs` runs on a GPU: torch.cuda.get_arch_list(), or capabilities such as '8.6', '12.0+PTX'.

    Machine code runs on the same major with the same or a newer minor version: 8.6 serves 8.9, but 9.0 does not serve 10.0.
    PTX runs on anything as new or newer. 'sm_90a' runs on 9.0 only, 'sm_100f' on its family. A Jetson takes only code that
    names it, until CUDA 13.2 (`cuda`: of the build). Source: the CUDA programming guide; torch/cuda/__init__.py of 2.14.1.
    """
    gpu = capability_numbers(capability)
    if gpu is None:
        return False
    told = table("torch")["system_on_chip"]
    gpu = (11, 0) if gpu == (10, 1) else gpu  # one chip, renamed in CUDA 13.0
    unified = cuda is not None and cuda_numbers(cuda) >= numbers(told["unified_from_cuda"])
    for arch in archs:
        entry = _entry(arch)
        if entry is None:
            continue
        built, is_code, is_ptx, suffix = entry
        built = (11, 0) if built == (10, 1) else built
        if is_ptx and built <= gpu and suffix != "a":
            return True
        if is_code and built == gpu:
            return True
        alone = not unified and {f"{one[0]}.{one[1]}" for one in (built, gpu)} & set(told["capabilities"])
        if is_code and not alone and suffix != "a" and built[0] == gpu[0] and built[1] <= gpu[1]:
            return True
    return False


def is_jetson(capability: str) -> bool:
    """Whether it is a Jetson's, whose wheels are NVIDIA's own for its JetPack."""
    return capability in table("torch")["system_on_chip"]["capabilities"]


def default_build(version: str, platform: str = "linux_x86_64") -> str | None:
    """What `pip install torch==version` brings from PyPI on one of PLATFORMS: 'cu130', 'cpu'; None: no wheel, or unknown."""
    found, told = release(version), table("torch")["platforms"].get(platform)
    if found is None or told is None:
        return None
    this = numbers(found.version)
    if platform in found.no_wheel_on or this < numbers(told.get("first", "0")) or ("last" in told and this > numbers(told["last"])):
        return None
    return found.default_build if told["brings"] == "cuda" and this >= numbers(told.get("cuda_from", "0")) else "cpu"


def has_cuda_builds(version: str, platform: str) -> bool | None:
    """Whether the wheel index has CUDA builds of a release for a platform; None when the release is unknown."""
    found = release(version)
    if found is None:
        return None
    told = table("torch")["platforms"].get(platform, {})
    return platform == "linux_x86_64" or numbers(found.version) >= numbers(told.get("index_builds_from", "99"))


def python_ok(version: str, python: str, platform: str = "linux_x86_64") -> bool | None:
    """Whether a release has wheels for a Python ('3.12', '3.12.4'); None when the release or the Python is unknown."""
    found, asked = release(version), numbers(python)[:2]
    if found is None or len(asked) < 2:
        return None
    newest = found.python_max if platform == "linux_x86_64" else found.python_max_elsewhere or found.python_max
    return numbers(found.python_min) <= asked <= numbers(newest)


def companions(version: str) -> Mapping[str, tuple[str, ...]]:
    """torchvision, torchaudio, xformers -> versions that go with a release, the one to install first; {} when unknown."""
    found = release(version)
    return MappingProxyType(dict(found.companions) if found else {})


def torch_for_companion(name: str, version: str) -> tuple[str, ...]:
    """Releases of torch that a version of torchvision, torchaudio or xformers goes with, newest first; () when unknown."""
    asked = version.strip().removeprefix("v").partition("+")[0]
    return tuple(one.version for one in releases() if asked in one.companions.get(name.strip().lower(), ()))


def wheel_index(build: str, nightly: bool = False) -> str:
    """Address of the wheel index of a build ('cu126', 'cpu')."""
    url: str = table("torch")["index"]["nightly" if nightly else "url"]
    return url.format(build=build)
