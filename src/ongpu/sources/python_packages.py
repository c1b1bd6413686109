"""Installed Python packages, as pip, conda, uv and poetry list them and as people tell them in prose."""

import re
from collections.abc import Iterable, Iterator

from ongpu.facts.framework import Jax, OnnxRuntime, Package, Packages, TensorFlow, Torch
from ongpu.knowledge.torch import default_build
from ongpu.lazy import lazy, replace
from ongpu.model import Evidence, Fact, Source

# Packages that are recognised in prose and with one space; all others need a table or "==".
_KNOWN_WORDS = (
    "torch torchvision torchaudio torchtext torchdata torchcodec pytorch libtorch pytorch-cuda pytorch-mutex "
    "pytorch-triton pytorch-lightning lightning tensorflow tensorflow-gpu tensorflow-cpu tf-nightly tf-nightly- "
    "gpu tensorflow-intel tensorflow-macos tensorflow-metal tensorflow-directml-plugin keras jax jaxlib jax- "
    "cuda11-plugin jax-cuda12-plugin jax-cuda13-plugin jax-cuda12-pjrt jax-cuda13-pjrt flax cupy cupy-cuda11x "
    "cupy-cuda12x cupy-cuda13x cupy-cuda110 cupy-cuda111 cupy-cuda102 cupy-cuda101 numba numba-cuda cudatoolkit "
    "cudatoolkit-dev cudnn cuda-toolkit cuda-nvcc cuda-version cuda-cudart onnx onnxruntime onnxruntime-gpu "
    "onnxruntime-directml onnxruntime-openvino xformers flash-attn flash_attn flashinfer triton triton-windows "
    "bitsandbytes vllm sglang deepspeed apex mamba-ssm causal-conv1d auto-gptq autoawq exllamav2 llama-cpp-python "
    "ctranslate2 faster-whisper openai-whisper whisperx paddlepaddle paddlepaddle-gpu paddleocr mxnet mxnet-cu112 "
    "mxnet-cu101 mxnet-cu100 mmcv mmcv-full mmdet detectron2 dgl dgl-cu117 torch-scatter torch-sparse torch- "
    "cluster torch-geometric pyg-lib faiss faiss-cpu faiss-gpu xgboost lightgbm catboost cudf cuml spacy easyocr "
    "transformers accelerate peft diffusers datasets sentence-transformers ultralytics numpy scipy pandas scikit- "
    "learn opencv-python opencv-contrib-python torch-xla torch-directml intel-extension-for-pytorch ipex nemo "
    "transformer-engine tensorrt tensorrt-llm ray kornia pytorch3d nvidia-ml-py tensorflow-io tensorflow-text "
    "tensorflow-probability tensorflow-hub tensorflow-addons "
)
_KNOWN = _KNOWN_WORDS.replace("- ", "-").split()
_ALIAS = {
    "pytorch": "torch",
    "tensor flow": "tensorflow",
    "tf": "tensorflow",
    "libtorch": "libtorch",
    "pytorch-gpu": "torch",
    "pytorch-cpu": "torch",
}
_VERSION = (
    r"\d+(?:\.\d+)*(?:[.\-]?(?:dev|post|rc|a|b|alpha|beta|git|"
    r"nv)\d*)*(?:\.post\d+)?(?:a0)?(?:\+[A-Za-z0-9][A-Za-z0-9._]*)?"
)
_NAME = r"[A-Za-z][A-Za-z0-9]*(?:[._-][A-Za-z0-9]+)*"
# one line of `pip list`, `conda list`, `uv pip list`, `poetry show`: name, version, then nothing, a path, a build, a summary
_ROW = lazy(
    rf"^[ \t|*+\-│]{{0,8}}(?:\[(?:pip3?|conda)\]\s+)?(?P<name>{_NAME})(?P<gap>[ "
    rf"\t|]+)(?:\(!\)\s*)?v?(?P<version>\d{_VERSION[2:]})"
    r"(?:[ \t|]+(?P<build>[\w.*+/:\\\-]+))?(?:[ \t|]+(?P<channel>[\w.:/<>\-]+))?[ \t|]*(?P<rest>.{0,160})$",
    re.MULTILINE,
)
_PINNED = lazy(rf"(?<![\w.\-/])(?P<name>{_NAME})(?:\[[\w,\-]*\])?(?:===?|@)v?(?P<version>{_VERSION})(?![\w*])")
_CONDA_PIN = lazy(rf"^\s*(?:-\s+)?(?P<name>{_NAME})=(?P<version>{_VERSION})=(?P<build>\w+)\s*$", re.MULTILINE)
_CONDA_INFO = lazy(
    r"\b(?P<channel>[a-z][\w\-]*)(?:/(?:linux|win|"
    r"osx)-\w+)?::(?P<name>[\w\-.]+)[-=](?P<version>\d[\w.]*)[-=](?P<build>\w+)"
)
_WORDS = "|".join(sorted((re.escape(name).replace("\\-", "[-_]") for name in _KNOWN), key=len, reverse=True))
_PROSE = lazy(
    rf"(?<![\w/\\.\-])(?P<name>{_WORDS}|tensor flow|(?-i:TF)(?= ?v?[12]\.\d))(?:[ _\-]?(?:version|ver\.?|__version__|版本))?(?:\s*\((?:GPU\?|"
    rf"pip|conda|source)\))?(?:\s+(?:version|ver\.?))?"
    rf"[ \t]*(?:is|are|was|[:=]{{1,2}}|[-–@])?[ \t]*(?:version[ \t]*)?['\"`]?(?:v|"
    rf"V\.?)?(?P<version>\d{_VERSION[2:]})(?![\w/])",
    re.IGNORECASE,
)
_BARE = lazy(r"^[ \t]*(?P<name>[a-z]+(?:[-_][a-z0-9]+)+)[ \t]*$", re.MULTILINE)  # a name alone on its line
_SHOW = lazy(
    r"^[ \t]*Name:[ \t]*(?P<name>[\w.\-]+)[ \t]*\n(?:(?![ \t]*Name:).*\n){0,3}?[ \t]*Version:[ "
    r"\t]*(?P<version>\S+)(?P<more>(?:\n(?![ \t]*Name:).*){0,12})",
    re.MULTILINE,
)
_LOCATION = lazy(r"^[ \t]*Location:[ \t]*(?P<path>.+)$", re.MULTILINE)
# the fields of issue forms: "### TensorFlow version\n\n2.14.0", "**PyTorch version**: 2.1", "TensorFlow version (use command below): 2.1"
_FIELD = lazy(
    r"^[ \t#*\-]*(?P<name>tensorflow|pytorch|torch|jax|onnx[ _]?runtime|paddlepaddle|mxnet|keras|numpy)[ _]version(?:[ ]?(?:\([^)\n]{0,60}\)|or commit id))?"
    r"[ \t]*[*:=\-]*[ \t]*\n{0,3}[ \t`'\"]*(?:(?:tf|tensorflow|pytorch|torch|jax|keras)[ =\-]{1,3})?v?(?P<version>\d+\.\d[\w.+]*)",
    re.IGNORECASE | re.MULTILINE,
)
# tf.version.GIT_VERSION beside tf.version.VERSION, as TensorFlow's issue form asks for them: "v2.11.0-rc2-15-g6290819256d 2.11.0"
_GIT_FLOW = lazy(r"\bv[12]\.\d{1,2}\.\d{1,2}(?:-rc\d)?-\d{1,5}-g[0-9a-f]{7,12}[ ,\t]+(?P<version>[12]\.\d{1,2}\.\d{1,2})\b")
# "pip install tensorflow -> 2.15.0": what came of an install, on the same line
_CAME = lazy(
    rf"\binstall(?:ed|ing)?\s+(?:-\S+\s+)*(?P<name>torch|tensorflow|jax|onnxruntime(?:-gpu)?)\b[^\n]{{0,40}}?(?:→|->|=>|gave(?: me)?|gives(?: me)?|installs|installed)\s*"
    rf"(?:torch |tensorflow |version )?v?(?P<version>\d{_VERSION[2:]})"
)
_REQUIRES_CUDA = lazy(r"^[ \t]*Requires:[^\n]*\bnvidia-\w[\w\-]*-cu(?P<major>1[1-3])\b", re.MULTILINE)
# a version that only torch writes so: "System Info: 2.0.0+cpu", "-> 2.3.0+cpu"
_BARE_BUILD = lazy(r"(?<![\w.\-=+/])(?<!torchvision )(?<!torchaudio )(?P<version>[12]\.\d{1,2}\.\d+(?:\.dev\d+)?\+(?:cpu|cu\d{2,3}))(?![\w/])")
_NOT_OF_TORCH = lazy(r"(?:vision|audio|text|scatter|sparse|cluster|lib|xformers|mmcv|dgl|triton|jaxlib|nightly)\W{0,12}$", re.IGNORECASE)
_EXISTING = lazy(rf"Found existing installation: (?P<name>{_NAME}) (?P<version>{_VERSION})")
_SATISFIED = lazy(
    rf"Requirement already satisfied: (?P<asked>{_NAME})\S* in "
    rf"(?P<path>\S+).{{0,200}}?\((?P<version>{_VERSION})\)"
)
_DONE = lazy(r"Successfully installed (?P<items>.+)")
_UV = lazy(rf"^[ \t]*\+ (?P<name>{_NAME})==(?P<version>{_VERSION})", re.MULTILINE)
_REQUEST = lazy(
    r"\b(?:pip3?|conda|mamba|micromamba|uv|poetry)(?:\.exe)?[\"']?(?: "
    r"pip)?(?:\s+-\S+)*\s+(?:install|add|uninstall|remove|create|update|download|wheel|sync)\b"
)
_NOT_HAVING = lazy(
    r"Could not find a version|No matching distribution|requires? |depends on|incompatible|"
    r"Collecting |Downloading |worked|works|tried|instead|need",
    re.IGNORECASE,
)
_WANTED = lazy(
    r"(?:installation:|requirement|Because|found for|requires?:?|depends on|Collecting|Downloading|needs?|built "
    r"for|compiled (?:for|against)|upgrade to|downgrade to|Uninstalling|removed?) $",
    re.IGNORECASE,
)
_HEADER = lazy(r"^(?:Package\s+Version\b|-{3,}\s+-{3,}|# Name\s+Version\b|  Name\s+Version\b)", re.MULTILINE)
_TABLE_STOP = frozenset(
    ("cuda", "version", "python", "ubuntu", "windows", "gpu", "driver", "debian", "step", "epoch", "loss")
)
MAX_TEXT = 600_000


def normal(name: str) -> str:
    """The normalised name of a package; conda's pytorch is torch."""
    low = re.sub(r"[-_.]+", "-", name).lower()
    return _ALIAS.get(low, low)


def cuda_of(version: str, build: str = "", channel: str = "") -> str | None:
    """CUDA that a build is for: "12.1" of "+cu121" or "py3.9_cuda12.1_cudnn8_0"; "" = CPU only; None = not told."""
    local = version.partition("+")[2].lower()
    if match := re.match(r"(?:pt\S*?)?cu(\d{2})(\d)(?!\d)", local):
        return f"{match[1]}.{match[2]}"
    if match := re.match(r"cu(\d)(\d)$", local):
        return f"{match[1]}.{match[2]}"
    if local.startswith(("cpu", "cxx11.abi.cpu")):
        return ""
    low = build.lower()
    if match := re.search(r"cuda_?(\d{1,2})\.(\d{1,2})", low):
        return f"{match[1]}.{match[2]}"
    if match := re.search(r"cuda_?(\d{2})_?(\d)(?!\d)", low):
        return f"{match[1]}.{match[2]}"
    if match := re.search(r"cuda(9)(\d)(?!\d)", low):
        return f"{match[1]}.{match[2]}"
    if re.search(r"(?:^|_)cpu(?:_|$)|^cpu|mkl_py|eigen_py", low) and "gpu" not in low:
        return ""
    return None


def _packages(evidence: Evidence, text: str) -> Iterator[tuple[int, int, Package]]:
    """(how trustworthy, offset, package): 0 = printed by a package manager as installed, 2 = told in prose."""
    lines_requesting = [(m.start(), _line_end(text, m.start())) for m in _REQUEST.finditer(text)]

    def asked(at: int) -> bool:
        return any(start <= at <= end for start, end in lines_requesting) or bool(
            _WANTED.search(text[max(0, at - 40) : at])
        )

    def make(
        match: re.Match[str], build: str = "", channel: str = "", location: str = "", prose: bool | None = None
    ) -> Package:
        name = match["name"]
        return Package(
            name=normal(name),
            version=match["version"].rstrip("."),
            build=build,
            channel=channel,
            location=location,
            ref=evidence.ref_at(match.start("name")),
            prose=prose,
        )

    for match in _SHOW.finditer(text):
        place = _LOCATION.search(match["more"])
        shown = make(match, location=place["path"].strip() if place else "")
        yield 0, match.start(), replace(shown, ref=evidence.ref_at(match.start("version")))
    for match in _EXISTING.finditer(text):
        yield 3, match.start(), make(match)
    for match in _UV.finditer(text):
        yield 0, match.start(), make(match)
    for match in _DONE.finditer(text):
        for item in match["items"].split()[:400]:
            name, _, version = item.rpartition("-")
            if name and version[:1].isdigit():
                yield 0, match.start(), Package(name=normal(name), version=version, ref=evidence.ref_at(match.start()))
    for match in _SATISFIED.finditer(text):
        yield (
            0,
            match.start(),
            Package(
                name=normal(match["asked"]),
                version=match["version"],
                location=match["path"],
                ref=evidence.ref_at(match.start()),
            ),
        )
    for match in _CONDA_INFO.finditer(text):
        yield 1, match.start(), make(match, match["build"], match["channel"])
    for match in _CONDA_PIN.finditer(text):
        yield 0, match.start(), make(match, match["build"])
    for match in _ROW.finditer(text):
        known = normal(match["name"]) in _KNOWN_SET or match["name"].startswith("nvidia-")
        tidy = len(match["gap"]) > 1 or "|" in match["gap"] or "\t" in match["gap"]
        low = match["name"].lower()
        if (
            low in _TABLE_STOP
            or (not known and ("." not in match["version"] or not tidy or match["rest"]))
            or asked(match.start())
        ):
            continue
        build, channel = match["build"] or "", match["channel"] or ""
        if not tidy and match["rest"]:
            continue
        location = build if "/" in build or "\\" in build else ""
        if known and not tidy and build and not re.search(r"\d|cpu|cuda|pypi", build):
            continue
        yield (
            (0 if tidy else 1),
            match.start(),
            make(match, "" if location else build, channel, location, None if tidy else True),
        )
    for match in _BARE.finditer(text):
        if normal(match["name"]) in _KNOWN_SET:
            bare = Package(name=normal(match["name"]), version="", ref=evidence.ref_at(match.start("name")))
            yield 3, match.start(), bare
    for match in _PINNED.finditer(text):
        if not asked(match.start()):
            yield (0 if _own_line(text, match) else 1), match.start(), make(match)
    for match in _CAME.finditer(text):
        yield 1, match.start(), make(match, prose=True)
    for match in _FIELD.finditer(text):
        name = normal(match["name"].replace(" ", "").replace("_", ""))
        version = match["version"].rstrip(".")
        yield 1, match.start(), Package(name=name, version=version, ref=evidence.ref_at(match.start("version")), prose=True)
    for match in _GIT_FLOW.finditer(text):
        yield 1, match.start(), Package(name="tensorflow", version=match["version"], ref=evidence.ref_at(match.start()), prose=True)
    for match in _PROSE.finditer(text):
        if not asked(match.start()) and normal(match["name"]) in _KNOWN_SET:
            line = text[max(text.rfind("\n", 0, match.start()) + 1, match.start() - 300) : match.start()]
            yield (4 if _NOT_HAVING.search(line) else 2), match.start(), make(match, prose=True)


_KNOWN_SET = frozenset(normal(name) for name in _KNOWN) | {"torch"}


def _line_end(text: str, at: int) -> int:
    """Where the line ends, with its continuation lines."""
    end = text.find("\n", at)
    while end > 0 and text[end - 1] in "\\`^":
        end = text.find("\n", end + 1)
    return end if end >= 0 else len(text)


def _own_line(text: str, match: re.Match[str]) -> bool:
    start = text.rfind("\n", 0, match.start()) + 1
    return not text[start : match.start()].strip(" \t-*+[]pi3conda")


def read(evidence: Evidence) -> Iterable[Fact]:
    """The packages told, the most trustworthy line of each first."""
    text = evidence.text[:MAX_TEXT]
    found = sorted(_packages(evidence, text), key=lambda item: item[:2])
    packages: dict[str, Package] = {}
    ranks: dict[str, int] = {}
    duplicates: list[Package] = []
    for rank, _, package in found:
        mine = packages.get(package.name)
        if mine is None:
            packages[package.name], ranks[package.name] = package, rank
        elif rank == ranks[package.name] == 0 and mine.version != package.version and mine.ref != package.ref:
            duplicates.append(package)
        elif rank > 0 and mine.public == package.public and not mine.local and package.local:
            packages[package.name] = package  # "torch 2.1.0" told, "2.1.0+cu121" elsewhere
    bare = None if "torch" in packages else next(_bare(text), None)
    if not packages:
        if bare:
            yield _torch_of(evidence, bare)
        return
    whole = bool(_HEADER.search(text)) or _listing(evidence.command) or len(packages) >= 25
    refs = tuple(p.ref for name, p in packages.items() if p.ref and name in _KNOWN_SET)[:6]
    yield Packages(
        packages=packages,
        complete=True if whole and len(packages) >= 12 else None,
        duplicates=tuple(duplicates),
        refs=refs or tuple(p.ref for p in packages.values() if p.ref)[:3],
    )
    yield from _frameworks(packages, _REQUIRES_CUDA.search(text) if "torch" in packages else None)
    if bare:
        yield _torch_of(evidence, bare)


def _bare(text: str) -> Iterator[re.Match[str]]:
    """Versions with torch's local part that stand without its name."""
    for match in _BARE_BUILD.finditer(text):
        if not _NOT_OF_TORCH.search(text[max(0, match.start() - 40) : match.start()]):
            yield match


def _torch_of(evidence: Evidence, match: re.Match[str]) -> Torch:
    return Torch(version=match["version"], cuda=cuda_of(match["version"]), refs=(evidence.ref_at(match.start(), "version"),))


def _listing(command: str | None) -> bool:
    return bool(command and re.search(r"\b(?:list|freeze)\s*$", command.strip()))


def _frameworks(packages: dict[str, Package], requires: re.Match[str] | None) -> Iterator[Fact]:
    """What the framework packages say of their builds."""
    torch = packages.get("torch")
    if torch and torch.ref:
        mutex = packages.get("pytorch-mutex")
        cuda = cuda_of(torch.version, torch.build, torch.channel)
        if cuda is None and mutex and mutex.build in ("cpu", "cuda"):
            cuda = "" if mutex.build == "cpu" else None
        if cuda is None and requires and not torch.build:
            cuda = _required_cuda(torch.version, requires["major"])
        hip = torch.local[4:] if torch.local.startswith("rocm") else None
        yield Torch(
            version=torch.version,
            cuda=cuda,
            hip=hip,
            location=torch.location or None,
            refs=(replace(torch.ref, about="version"),),
        )
    flow = next(
        (
            packages[n]
            for n in ("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tf-nightly", "tensorflow-intel")
            if n in packages
        ),
        None,
    )
    if flow and flow.ref:
        cuda = "" if flow.name == "tensorflow-cpu" else cuda_of("", flow.build)
        yield TensorFlow(version=flow.version, cuda=cuda, refs=(flow.ref,))
    jax = packages.get("jax") or packages.get("jaxlib")
    if jax and jax.ref:
        plugin = next((p for n, p in packages.items() if re.fullmatch(r"jax-cuda\d+-plugin", n)), None)
        yield Jax(version=jax.version, plugin=plugin.version if plugin else None, refs=(jax.ref,))
    onnx = packages.get("onnxruntime-gpu") or packages.get("onnxruntime")
    if onnx and onnx.ref:
        yield OnnxRuntime(version=onnx.version, refs=(onnx.ref,))


def _required_cuda(version: str, major: str) -> str | None:
    """CUDA of PyPI's build, where `pip show` says that it requires wheels of this CUDA major."""
    build = default_build(version) or ""
    return f"{build[2:-1]}.{build[-1]}" if build[2:-1] == major else None


SOURCES = (
    Source(
        kind="python_packages",
        read=read,
        looks_like=lambda evidence: any(c.isdigit() for c in evidence.text),
        gives=(Packages, Torch, TensorFlow, Jax, OnnxRuntime),
        settle="pip list",
    ),
)
