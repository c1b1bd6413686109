"""The user's interpreter, as `hosts/interpreter.py` examined it: one JSON object."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ongpu.facts.framework import Package, Packages, Python, TensorFlow, Torch
from ongpu.facts.libraries import Loaded, Loader
from ongpu.model import Evidence, Fact, Get, Ref, Source


def normalised(name: str) -> str:
    """A distribution's name as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _assigned(text: str, name: str) -> str | None:
    """The string that a version file assigns to a name ("" for None); None where it does not."""
    match = re.search(rf"""^\s*{name}\s*(?::[^=\n]+)?=\s*(?:(['"])(?P<v>[^'"\n]*)\1|None)""", text, re.MULTILINE)
    return None if match is None else match["v"] or ""


def read(evidence: Evidence) -> Iterable[Fact]:
    """The interpreter, its packages, what its frameworks were built for, and how their libraries resolve."""
    about: Mapping[str, Any] = json.loads(evidence.text)
    where = str(about.get("executable"))
    yield Python(
        version=about.get("version"),
        executable=where,
        prefix=about.get("prefix"),
        conda=about.get("conda"),
        refs=(Ref(where, 1, f"Python {about.get('version')}", "version"),),
    )
    packages: dict[str, Package] = {}
    duplicates = []
    for name, version, folder in about.get("distributions", ()):
        package = Package(name=normalised(name), version=version, location=folder, ref=Ref(folder, 1, f"{name} {version}"))
        if package.name in packages:
            duplicates.append(package)
        else:
            packages[package.name] = package
    yield Packages(packages=packages, complete=True, duplicates=tuple(duplicates), refs=())
    files: Mapping[str, str] = about.get("files", {})
    libraries: Mapping[str, Mapping[str, Any]] = about.get("libraries", {})
    if (text := files.get("torch/version.py")) is not None:
        archs = next((tuple(lib["archs"]) for path, lib in libraries.items() if lib.get("archs")), None)
        version, cuda = _assigned(text, "__version__"), _assigned(text, "cuda")
        yield Torch(
            version=version,
            cuda=cuda,
            hip=_assigned(text, "hip") or None,
            archs=archs,
            location=packages["torch"].location if "torch" in packages else None,
            refs=(
                Ref("torch/version.py", 1, f"__version__ = {version!r}", "version"),
                Ref("torch/version.py", 1, f"cuda = {cuda!r}" if cuda else "cuda = None", "cuda"),
                *((Ref("libtorch_cuda.so", 1, " ".join(archs), "archs"),) if archs else ()),
            ),
        )
    if (text := files.get("tensorflow/python/platform/build_info.py")) is not None:
        yield _tensorflow(text, packages)
    resolved = about.get("resolved", ())
    if resolved:
        yield Loader(
            loaded=tuple(
                Loaded(name, path, by, Ref(by, 1, f"{name} => {path or 'not found'}")) for name, path, by in resolved
            )
        )


def _tensorflow(text: str, packages: Mapping[str, Package]) -> TensorFlow:
    package = next((packages[n] for n in ("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tf-nightly") if n in packages), None)

    def value(name: str) -> str | None:
        match = re.search(rf"""['"]{name}['"]\s*[,:]\s*['"]([^'"\n]*)""", text)
        return match[1] if match else None

    built = re.search(r"""['"]is_cuda_build['"]\s*[,:]\s*(True|False)""", text)
    cuda = value("cuda_version") or ("" if built and built[1] == "False" else None)
    return TensorFlow(
        version=package.version if package else None,
        cuda=cuda,
        cudnn=value("cudnn_version"),
        refs=(Ref("tensorflow/python/platform/build_info.py", 1, f"cuda_version: {cuda or 'none'}", "cuda"),),
    )


SOURCES = (
    Source(
        kind="python-environment",
        read=read,
        looks_like=lambda evidence: evidence.text.startswith('{"version": ') and '"distributions"' in evidence.text,
        gives=(Python, Packages, Torch, TensorFlow, Loader),
        get=(Get(call="interpreter:ask", limit=5.0),),
        settle="pip list",
    ),
)
