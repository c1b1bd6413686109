"""Which build of a framework a GPU, a driver and a Python can run: the choice behind `ongpu pick` and the repairs."""

import re
from collections.abc import Callable, Iterator

from ongpu.knowledge import cuda as cuda_table
from ongpu.knowledge import jax as jax_table
from ongpu.knowledge import libs, others, tensorflow, torch
from ongpu.knowledge._versions import numbers
from ongpu.lazy import dataclass, field, replace

FRAMEWORKS = ("torch", "tensorflow", "jax", "onnxruntime", "cupy", "paddle", "ctranslate2", "vllm", "bitsandbytes", "xformers")
ALIASES = {
    "pytorch": "torch", "tf": "tensorflow", "onnxruntime-gpu": "onnxruntime", "ort": "onnxruntime", "paddlepaddle": "paddle",
    "paddlepaddle-gpu": "paddle", "cupy-cuda12x": "cupy", "cupy-cuda13x": "cupy", "faster-whisper": "ctranslate2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Here:
    """What a build must fit. None: nobody said, so it is not judged.

    capabilities: of all cards ("8.6"). driver: version or branch ("535.183.01", "570"). python: "3.12".
    platform: one of torch.PLATFORMS.
    """

    capabilities: tuple[str, ...] = ()
    driver: str | None = None
    python: str | None = None
    platform: str = "linux_x86_64"

    @property
    def windows(self) -> bool:
        """Whether driver floors are those of Windows."""
        return self.platform.startswith("windows")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One build. problem: why it does not run here, "" where it does:

    "card" no code for the GPU; "cudnn" its cuDNN (need) has none; "driver" the driver is too old (need); "python" no wheel for
    this Python; "platform" no CUDA wheel for this system; "jetson" a Jetson wants NVIDIA's own; "cpu" a CPU-only build;
    "unknown" the tables do not say.
    libraries: where the CUDA libraries are not brought along: "path" the wheels beside it hold them, in folders that the loader
    does not search; "toolkit" nothing here holds them; wants: which.
    """

    package: str
    version: str
    build: str
    install: str
    problem: str = ""
    need: str = ""
    exact_install: str = ""
    libraries: str = ""
    wants: str = ""

    @property
    def exact(self) -> str:
        """The command that replaces another build of the same version too: pip keeps "2.4.1+cpu" for "torch==2.4.1"."""
        return self.exact_install or self.install


@dataclass(frozen=True, slots=True)
class Choice:
    """What to install, and why the neighbours cannot: the plain `pip install`, the newest, the one that was asked for."""

    chosen: Candidate | None
    rejected: tuple[Candidate, ...] = ()
    also: tuple[Candidate, ...] = field(default_factory=tuple)  # that would run as well


def pick(framework: str, here: Here, version: str | None = None) -> Choice:
    """The newest build of a framework that runs here; with a version, of that version only. ValueError: unknown framework."""
    name = ALIASES.get(framework.lower(), framework.lower())
    if name not in FRAMEWORKS:
        raise ValueError(f"unknown framework {framework!r}; known: {', '.join(FRAMEWORKS)}, driver")
    return _choice(list(_CANDIDATES.get(name, _of_package(name))(here, version)))


def nearest(framework: str, here: Here, version: str) -> Candidate | None:
    """Of the builds that run here the one whose release is nearest to a version: a repair changes no more than it must."""
    name = ALIASES.get(framework.lower(), framework.lower())
    fitting = [one for one in _CANDIDATES.get(name, _of_package(name))(here, None) if not one.problem]
    mine = (*numbers(version), 0, 0)[:2]

    def far(one: Candidate) -> tuple[int, ...]:
        theirs = (*numbers(one.version), 0, 0)[:2]
        return abs(theirs[0] - mine[0]), abs(theirs[1] - mine[1]), theirs < mine

    return min(fitting, key=far, default=None)  # the newest first, so that of one minor its newest is taken


def newest(framework: str) -> str | None:
    """The newest release of a framework that the tables know."""
    every = _CANDIDATES.get(name := ALIASES.get(framework.lower(), framework.lower()), _of_package(name))(Here(), None)
    return max((one.version for one in every), key=numbers, default=None)


def _choice(candidates: list[Candidate]) -> Choice:
    fitting = [one for one in candidates if not one.problem]
    # a build that the tables cannot judge is better than none, and is told as such
    chosen = fitting[0] if fitting else next((one for one in candidates if one.problem == "unknown"), None)
    before = candidates[: candidates.index(chosen)] if chosen else candidates
    return Choice(chosen, tuple(_telling(before)), tuple(fitting[1:4]))


def _telling(candidates: list[Candidate]) -> Iterator[Candidate]:
    """The rejected ones worth telling: for each problem and build, the newest."""
    seen: set[tuple[str, str]] = set()
    for one in candidates:
        key = (one.problem, one.build)
        if key not in seen:
            seen.add(key)
            yield one


def _too_old(here: Here, cuda: str) -> str:
    """The driver that a build for this CUDA needs, where the one here is older; else ""."""
    if here.driver is None:
        return ""
    need = cuda_table.oldest_driver_for(cuda, here.windows)
    for capability in here.capabilities:
        first = cuda_table.oldest_driver_for_gpu(capability)
        if first and (need is None or numbers(first) > numbers(need)):
            need = first
    return need if need and not _reaches(here.driver, need) else ""


def _reaches(driver: str, need: str) -> bool:
    """"570" alone stands for the newest driver of that branch."""
    have, floor = numbers(driver), numbers(need)
    return have[:1] >= floor[:1] if len(have) == 1 else have >= floor


def _plain(version: str) -> str:
    """'2.1' -> '2.1.0', '2.1.2+cu118' -> '2.1.2'."""
    found = torch.release(version)
    return found.version if found else version


# --- PyTorch


def _torch(here: Here, version: str | None) -> Iterator[Candidate]:
    found = [one for one in torch.releases() if version is None or one.version == _plain(version)]
    for release in found:
        plain = torch.default_build(release.version, here.platform)
        newest_first = sorted(release.builds, key=lambda build: numbers(cuda_table.cuda_of_build(build) or "0"), reverse=True)
        builds = [*([plain] if plain else []), *(build for build in newest_first if build != plain)]
        for build in builds:
            yield _torch_build(release, build, build == plain, here)


def _torch_build(release: torch.Release, build: str, plain: bool, here: Here) -> Candidate:
    version = release.version
    exact = _torch_install(release, build, f"+{build}")
    install = _torch_install(release, build, "") if plain else exact.replace(f"+{build}", "")
    candidate = Candidate("torch", version, build, install, exact_install=exact)
    cuda = cuda_table.cuda_of_build(build)
    if here.platform == "macos_arm64" and plain:  # Apple's GPU, by Metal: in the one wheel that there is
        fits = not here.python or torch.python_ok(version, here.python, here.platform) is not False
        made = replace(candidate, build="mps")
        return made if fits else _problem(made, "python", f"{release.python_min}-{release.python_max}")
    if here.platform.startswith("macos") or (torch.has_cuda_builds(version, here.platform) is False and build != "cpu"):
        return _problem(candidate, "platform")
    if cuda is None:
        return _problem(candidate, "cpu")
    if here.python and torch.python_ok(version, here.python, here.platform) is False:
        return _problem(candidate, "python", f"{release.python_min}-{release.python_max}")
    archs, cudnn = torch.archs(version, build, here.platform), torch.cudnn(version, build)
    floor = libs.oldest_card_of_cudnn(cudnn) if cudnn else None
    for capability in here.capabilities:
        if torch.is_jetson(capability):
            return _problem(candidate, "jetson", capability)
        if archs is None:
            return _problem(candidate, "unknown", build)
        if not torch.runs(archs, capability, cuda):
            return _problem(candidate, "card", capability)
        if cudnn and floor and numbers(capability) < numbers(floor):
            return _problem(candidate, "cudnn", f"{cudnn} ({capability})")
    if need := _too_old(here, cuda):
        return _problem(candidate, "driver", need)
    return candidate


def _torch_install(release: torch.Release, build: str, label: str) -> str:
    """With the build's label the wheels come from its index, without from PyPI."""
    companions = torch.companions(release.version)
    names = [f"torch=={release.version}{label}"]
    names += [f"{name}=={companions[name][0]}{label}" for name in ("torchvision", "torchaudio") if companions.get(name)]
    return f"pip install {' '.join(names)}" + (f" --index-url {torch.wheel_index(build)}" if label else "")


def _problem(candidate: Candidate, problem: str, need: str = "") -> Candidate:
    return replace(candidate, problem=problem, need=need)


# --- TensorFlow and JAX


def _tensorflow(here: Here, version: str | None) -> Iterator[Candidate]:
    for release in tensorflow.releases():
        if version and tensorflow.release(version) is not release:
            continue
        extra = "[and-cuda]" if tensorflow.has_and_cuda_extra(release.version) and not here.windows else ""
        exact = version if version and version.count(".") > 1 else f"{release.version}.*"
        wanted = release.and_cuda.get("cudnn", "")
        bound = _cudnn_bound(here, release.cuda, wanted.lstrip(">=").partition(",")[0]) if wanted.startswith(">") else ""
        install = f'pip install "tensorflow{extra}=={exact}"{bound}'
        candidate = Candidate("tensorflow", release.version, f"CUDA {release.cuda}", install)
        if not extra:
            candidate = replace(candidate, libraries="toolkit", wants=f"CUDA {release.cuda}, cuDNN {release.cudnn}")
        if here.platform not in tensorflow.gpu_platforms(release.version):
            yield _problem(candidate, "platform")
        elif here.python and not tensorflow.python_ok(release.version, here.python):
            yield _problem(candidate, "python", f"{release.python_min}-{release.python_max}")
        elif short := next((c for c in here.capabilities if numbers(c) < numbers(release.capability_min) or not tensorflow.has_code_for(c)), None):
            yield _problem(candidate, "card", short)
        elif need := _too_old(here, release.cuda):
            yield _problem(candidate, "driver", need)
        else:
            yield candidate


def _jax(here: Here, version: str | None) -> Iterator[Candidate]:
    if version and _beyond(version, jax_table.newest()):
        return
    for line in jax_table.lines():
        releases = [r for r in jax_table.releases() if line in jax_table.lines_of(version or r.version)]
        for release in releases[:1] if version else releases:
            name = version or release.version
            links = f" -f {line.find_links}" if line.find_links else ""
            bound = _cudnn_bound(here, line.needs_cuda, release.cudnn.get(str(line.cuda_major), ""))
            candidate = Candidate("jax", name, line.extra, f'pip install "jax[{line.extra}]=={name}"{bound}{links}')
            if here.platform not in jax_table.gpu_platforms():
                yield _problem(candidate, "platform")
            elif here.python and not numbers(release.python_min) <= numbers(here.python)[:2] <= numbers(release.python_max):
                yield _problem(candidate, "python", f"{release.python_min}-{release.python_max}")
            elif short := next((c for c in here.capabilities if numbers(c) < numbers(line.capability_min)), None):
                yield _problem(candidate, "card", short)
            elif need := _too_old(here, line.needs_cuda):
                yield _problem(candidate, "driver", need)
            else:
                yield candidate


def _beyond(version: str, newest: str) -> bool:
    """Whether a release is newer than the newest that the tables know ('3.2' stands for every 3.2.x)."""
    known = numbers(newest)
    return numbers(version)[: len(known)] > known


def _cudnn_bound(here: Here, cuda: str, least: str) -> str:
    """A further requirement, where pip would else bring a cuDNN that has no code for these cards, or another major.

    The extras of JAX and TensorFlow bound cuDNN from below: its newest has dropped all cards before Turing.
    """
    bounds = [bound for bound in map(libs.cudnn_bound, here.capabilities) if bound]
    if least and numbers(least)[0] < 9:
        bounds.append("9")
    bound = min(bounds, key=numbers, default=None)
    return f' "nvidia-cudnn-cu{numbers(cuda)[0]}<{bound}"' if bound and least and numbers(least) < numbers(bound) else ""


# --- packages of knowledge/others.toml

Candidates = Callable[[Here, str | None], Iterator[Candidate]]
_DISTRIBUTIONS = {
    "onnxruntime": ("onnxruntime-gpu",), "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x"), "paddle": ("paddlepaddle-gpu",),
}  # fmt: skip
_LEFT_OUT = "5.0"  # cards that most builds leave out though their CUDA could compile for them
_CARD_FLOOR = {13: "7.5", 12: "5.0", 11: "3.5"}  # oldest capability that a CUDA major can compile for: gpus.toml


def _of_package(name: str) -> Candidates:
    def candidates(here: Here, version: str | None) -> Iterator[Candidate]:
        for distribution in _DISTRIBUTIONS.get(name, (name,)):
            package = others.package(distribution)
            if package:
                yield from _package_lines(package, here, version)

    return candidates


def _package_lines(package: others.Package, here: Here, version: str | None) -> Iterator[Candidate]:
    if version and not _beyond(version, package.newest) and (line := others.line(package.name, version)):
        lines: tuple[others.Line, ...] = (line,)
    else:
        lines = tuple(one for one in package.lines if not one.gone) if version is None else ()
    for line in lines:
        for cuda in sorted(line.cuda, key=numbers, reverse=True):
            yield _package_build(package, line, cuda, here, version)


def _package_build(package: others.Package, line: others.Line, cuda: str, here: Here, version: str | None) -> Candidate:
    wanted = f"=={version}" if version else _range(package, line)
    index = f" -i {package.index.format(build='cu' + cuda.replace('.', ''))}" if package.index and "." in cuda else ""
    name = version or line.last or package.newest
    extras = f"[{line.extras}]" if line.extras else ""
    bound = _cudnn_bound(here, cuda, line.cudnn) if line.cudnn == "9" and (extras or line.beside) else ""
    beside = "".join(f" {_quoted(one)}" for one in line.beside)
    candidate = Candidate(
        package.name, name, f"CUDA {cuda}", f"pip install {_quoted(package.name + extras + wanted)}{beside}{bound}{index}",
        libraries="path" if beside else "toolkit" if line.toolkit else "",
        wants=f"CUDA {cuda}" + (f", cuDNN {line.cudnn}" if line.cudnn else ""),
    )  # fmt: skip
    if not here.platform.startswith(("linux", "windows")):
        return _problem(candidate, "platform")
    first, last = line.python_min, line.python_max
    if here.python and not numbers(first or "0") <= numbers(here.python)[:2] <= numbers(last or "99"):
        return _problem(candidate, "python", f"{first}-{last}" if last else f">={first}")
    told = line.capability_min or package.capability_min
    compiled = _CARD_FLOOR.get(numbers(cuda)[0], "0")
    floor = max((told if told and told != "compiler" else "0", compiled), key=numbers)
    if short := next((c for c in here.capabilities if numbers(c) < numbers(floor)), None):
        return _problem(candidate, "card", short)
    if not told and any(numbers(c) < numbers(_LEFT_OUT) for c in here.capabilities):
        return _problem(candidate, "unknown", cuda)
    if need := _too_old(here, cuda):
        return _problem(candidate, "driver", need)
    return candidate


def _quoted(requirement: str) -> str:
    """For a shell: cmd.exe and sh alike take double quotes; a plain name needs none."""
    return f'"{requirement}"' if re.search(r"[^\w.=-]", requirement) else requirement


def _range(package: others.Package, line: others.Line) -> str:
    """The releases of a line, as a PEP 440 specifier."""
    if line.last is None:
        return ""
    major, minor = (*numbers(line.last), 0)[:2]
    return f">={line.first},<{major}.{minor + 1}"


def _of_torch(name: str) -> Candidates:
    """A package that pins torch: it runs where that torch's default build does."""

    def candidates(here: Here, version: str | None) -> Iterator[Candidate]:
        package = others.package(name)
        for release in package.torch if package else ():
            if version and release != version:
                continue
            torches = [one for one in torch.releases() if others.torch_ok(name, release, one.version)]
            if torches:
                base = _torch_build(torches[0], torches[0].default_build, True, here)
                floor = package.capability_min if package else None
                short = next((c for c in here.capabilities if floor and numbers(c) < numbers(floor)), None)
                of = f"torch {base.version} {base.build}"
                made = Candidate(name, release, of, f"pip install {name}=={release}", base.problem, base.need)
                yield _problem(made, "platform") if base.build == "mps" else _problem(made, "card", short) if short else made

    return candidates


_CANDIDATES: dict[str, Candidates] = {
    "torch": _torch, "tensorflow": _tensorflow, "jax": _jax, "vllm": _of_torch("vllm"), "xformers": _of_torch("xformers"),
}  # fmt: skip
