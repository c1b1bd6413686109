"""The user's interpreter, as `hosts/interpreter.py` examined it: one JSON object."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ongpu.facts.framework import Jax, OnnxRuntime, Package, Packages, Python, TensorFlow, Torch
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
    if not evidence.text:
        return
    about: Mapping[str, Any] = json.loads(evidence.text)
    where = str(about.get("executable"))
    shadows = tuple((str(name), str(file)) for name, file in about.get("shadows", ()))
    others = tuple(map(str, about.get("others", ())))
    yield Python(
        version=about.get("version"),
        executable=where,
        prefix=about.get("prefix"),
        conda=about.get("conda"),
        others=others,
        shadows=shadows,
        refs=(
            Ref(where, 1, f"Python {about.get('version')}", "version"),
            *(Ref(file, 1, f"{name} would be imported from {file}", "shadows") for name, file in shadows),
            *(Ref(other.partition(": ")[0], 1, other, "others") for other in others),
        ),
    )
    packages, duplicates = _packages(about.get("distributions", ()))
    yield Packages(packages=packages, complete=True, duplicates=tuple(duplicates), refs=())
    files: Mapping[str, str] = about.get("files", {})
    libraries: Mapping[str, Mapping[str, Any]] = about.get("libraries", {})
    yield from _frameworks(packages, files, libraries)
    resolved = about.get("resolved", ())
    if resolved:
        loaded = tuple(Loaded(name, path, by, Ref(by, 1, f"{name} => {path or 'not found'}")) for name, path, by in resolved)
        lost = tuple(item.ref for item in loaded if item.ref and not item.path)
        yield Loader(loaded=loaded, refs=lost[:4] or tuple(item.ref for item in loaded[:2] if item.ref))


def _packages(distributions: Iterable[list[str]]) -> tuple[dict[str, Package], list[Package]]:
    """The packages by name, those first on the path; and second copies."""
    packages: dict[str, Package] = {}
    duplicates = []
    for name, version, folder, *more in distributions:
        build = [part for part in more[:1] if part]
        package = Package(
            name=normalised(name),
            version=version,
            build=build[0] if build else "",
            location=folder,
            direct=more[1:2] == ["direct"],
            ref=Ref(folder, 1, f"{name} {version}" + (f" {build[0]}" if build else "")),
        )
        mine = packages.setdefault(package.name, package)
        if mine is not package and not build and (mine.version, mine.location) != (package.version, package.location):
            duplicates.append(package)
    return packages, duplicates


def _frameworks(
    packages: Mapping[str, Package], files: Mapping[str, str], libraries: Mapping[str, Mapping[str, Any]]
) -> Iterator[Fact]:
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
    flow = next((packages[n] for n in ("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tf-nightly") if n in packages), None)
    if (text := files.get("tensorflow/python/platform/build_info.py")) is not None:
        yield _tensorflow(text, flow)
    elif flow:
        yield TensorFlow(version=flow.version, cuda="" if flow.name == "tensorflow-cpu" else None, refs=_cite(flow))
    if jax := packages.get("jax") or packages.get("jaxlib"):
        plugin = next((p for n, p in packages.items() if re.fullmatch(r"jax-cuda\d+-plugin", n)), None)
        yield Jax(version=jax.version, plugin=plugin.version if plugin else None, refs=_cite(jax, plugin))
    if onnx := packages.get("onnxruntime-gpu") or packages.get("onnxruntime"):
        yield OnnxRuntime(version=onnx.version, refs=_cite(onnx))


def _cite(*packages: Package | None) -> tuple[Ref, ...]:
    return tuple(package.ref for package in packages if package and package.ref)


def _tensorflow(text: str, package: Package | None) -> TensorFlow:
    def value(name: str) -> str | None:
        match = re.search(rf"""['"]{name}['"]\s*[,:]\s*['"]([^'"\n]*)""", text)
        return match[1] if match else None

    built = re.search(r"""['"]is_cuda_build['"]\s*[,:]\s*(True|False)""", text)
    cuda = value("cuda_version") or ("" if built and built[1] == "False" else None)
    return TensorFlow(
        version=package.version if package else None,
        cuda=cuda,
        cudnn=value("cudnn_version"),
        refs=(Ref("tensorflow/python/platform/build_info.py", 1, f"cuda_version: {cuda or 'none'}", "cuda"), *_cite(package)),
    )


SOURCES = (
    Source(
        kind="python-environment",
        read=read,
        looks_like=lambda evidence: evidence.text.startswith('{"version": ') and '"distributions"' in evidence.text,
        gives=(Python, Packages, Torch, TensorFlow, Jax, OnnxRuntime, Loader),
        get=(Get(call="interpreter:ask", limit=5.0),),
        settle="pip list",
    ),
)
