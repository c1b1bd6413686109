"""Files that describe containers: Dockerfiles, compose files, Kubernetes manifests, systemd units of podman."""


import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from ongpu.facts.container import Container, Kubernetes, Pod, Run
from ongpu.facts.environment import Variables
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source
from ongpu.sources.docker import image_cuda, together

MAX_YAML = 200_000  # characters of a file that is read as YAML
MAX_CUTS = 25  # lines that are cut from its end until it can be read
MAX_DEPTH = 24
MAX_KEYS = 2000  # of one mapping

_FROM = lazy(r"^[ \t]*FROM[ \t]+(?:--platform=\S+[ \t]+)?(?P<image>[\w./:@\-${}]+)", re.MULTILINE)
_DOCKERFILE = lazy(r"^[ \t]*(?:RUN|CMD|ENTRYPOINT|ENV|COPY|WORKDIR|ARG|ADD|EXPOSE|USER|SHELL)[ \t]+\S", re.MULTILINE)
_ENV = lazy(r"^[ \t]*(?:ENV|ARG)[ \t]+(?P<rest>[A-Za-z_][A-Za-z0-9_]*(?:[ \t]+|=)(?:[^\n\\]|\\\n|\\[^\n])*)", re.MULTILINE)
_PAIR = lazy(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'\\]*)")
_START = lazy(r"^[ \t]*(?:- )?(?:apiVersion|version|services|kind|name|x-[\w-]+|spec|containers|resources|networks|volumes|[\w.-]{1,60}):(?:[ \t].*)?$")
_QUADLET = lazy(r"^(?:Image|AddDevice|PodmanArgs|ContainerName|Exec)=", re.MULTILINE)
GPU_RESOURCE = lazy(r"^(?:requests\.|limits\.)?(?:[\w.-]+/)(?:[\w.-]*gpu[\w.-]*|mig-[\w.]+|vgpu[\w-]*)$", re.IGNORECASE)
_NO_TAGS = lazy(r"\{\{.*?\}\}")


class _Loader(yaml.SafeLoader):
    """Safe, and bounded: merged aliases (<<: [*a, *a]) can otherwise grow without end."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Refuse what has grown beyond any real file."""
        super().flatten_mapping(node)
        if len(node.value) > MAX_KEYS:
            raise yaml.YAMLError("too many merged keys")


def documents(text: str) -> list[Any]:
    """The YAML documents of a text; [] where it is none. Prompts before it and prose after it are left out."""
    lines = _NO_TAGS.sub("x", text[:MAX_YAML].replace("\t", "  ")).split("\n")
    begin = next((i for i, line in enumerate(lines) if _START.match(line) and not line.lstrip().startswith("$")), None)
    if begin is None:
        return []
    lines = lines[begin:]
    for _ in range(MAX_CUTS):
        try:
            found = [d for d in yaml.load_all("\n".join(lines), Loader=_Loader) if d is not None]
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            cut = min(mark.line if mark is not None else len(lines) - 1, len(lines) - 1)
            lines = lines[:cut]
        except (ValueError, RecursionError, AttributeError, TypeError):
            return []
        else:
            return found if all(isinstance(d, (dict, list)) for d in found) else [d for d in found if isinstance(d, (dict, list))]
        if not any(line.strip() for line in lines):
            return []
    return []


def _line_of(evidence: Evidence, *words: str) -> Ref:
    """The first line that holds one of these words, in this order of preference."""
    lines = evidence.lines()
    for word in words:
        for number, line in lines:
            if word and word in line:
                return evidence.ref(number, line)
    number, line = next(((n, text) for n, text in lines if text.strip()), (evidence.first_line, ""))
    return evidence.ref(number, line)


def _pairs(value: Any) -> dict[str, str]:
    """Environment of a compose service: a list of "A=b" or a mapping."""
    if isinstance(value, Mapping):
        return {str(k): "" if v is None else str(v) for k, v in value.items()}
    found = {}
    for item in value if isinstance(value, list) else ():
        name, equals, rest = str(item).partition("=")
        if equals:
            found[name.strip()] = rest.strip().strip("\"'")
    return found


def _deep(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _service(evidence: Evidence, name: str, entry: Mapping[str, Any]) -> Run:
    requests = _deep(entry, "deploy", "resources", "reservations", "devices") or entry.get("device_requests") or []
    requests = requests if isinstance(requests, list) else []
    wanted = [r for r in requests if isinstance(r, Mapping)]
    has = [r for r in wanted if "gpu" in str(r.get("capabilities", "")).lower() or str(r.get("driver", "")).lower() == "cdi"]
    devices = [str(d) for d in entry.get("devices") or [] if d] if isinstance(entry.get("devices"), list) else []
    cdi = next((d for d in devices if d.startswith("nvidia.com/")), "")
    runtime = str(entry.get("runtime", ""))
    gpus = entry.get("gpus")
    asked = bool(has) or "nvidia" in runtime or bool(gpus) or bool(cdi)
    told = str(gpus or cdi or (f"runtime: {runtime}" if "nvidia" in runtime else "") or (str(has[0].get("count", "all")) if has else ""))
    command = entry.get("command") or ""
    return Run(
        program="compose", image=str(entry.get("image", "")), name=name, gpu=asked, gpus=told,
        nodes=tuple(d.partition(":")[0] for d in devices if "/dev/nvidia" in d), privileged=bool(entry.get("privileged")),
        shm=str(entry.get("shm_size") or ""), ipc=str(entry.get("ipc") or ""), environ=_pairs(entry.get("environment")),
        argv=tuple(map(str, command)) if isinstance(command, list) else tuple(str(command).split()),
        ref=_line_of(evidence, f"image: {entry.get('image')}" if entry.get("image") else "", f"{name}:"),
    )


def _services(document: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The services of a compose file, or of a part of one."""
    if not isinstance(document, Mapping) or "apiVersion" in document or "kind" in document:
        return
    services = document.get("services")
    if isinstance(services, Mapping):
        yield from ((str(k), v) for k, v in services.items() if isinstance(v, Mapping))
    elif "services" not in document:
        told = ("image", "build", "runtime", "deploy", "container_name")
        if "image" in document and any(k in document for k in ("ports", "volumes", "deploy", "environment", "runtime", "restart", "command")):
            yield "service", document
        else:
            yield from ((str(k), v) for k, v in document.items() if isinstance(v, Mapping) and sum(word in v for word in told) and "containers" not in v)


def _pod_specs(value: Any, name: str = "", depth: int = 0, seen: set[int] | None = None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every pod spec of a manifest: mappings with a list `containers`. An alias is looked at once."""
    seen = set() if seen is None else seen
    if depth > MAX_DEPTH or id(value) in seen:
        return
    if isinstance(value, (dict, list)):
        seen.add(id(value))
    if isinstance(value, Mapping):
        here = _deep(value, "metadata", "name")
        name = str(here) if isinstance(here, str) else name
        if isinstance(value.get("containers"), list):
            yield name, value
            return
        for item in value.values():
            yield from _pod_specs(item, name, depth + 1, seen)
    elif isinstance(value, list):
        for item in value[:200]:
            yield from _pod_specs(item, name, depth + 1, seen)


def _gpu_amounts(resources: Any) -> list[tuple[str, str, bool]]:
    """(resource, amount, in limits) of a container's GPU resources."""
    found = []
    for part in ("limits", "requests"):
        entry = _deep(resources, part)
        for key, amount in entry.items() if isinstance(entry, Mapping) else ():
            if GPU_RESOURCE.match(str(key)):
                found.append((str(key), str(amount), part == "limits"))
    return found


def _count(amount: str) -> int:
    try:
        return max(0, int(float(amount)))
    except (ValueError, OverflowError):
        return 0


def _pod(evidence: Evidence, name: str, spec: Mapping[str, Any]) -> Pod:
    containers = [c for c in spec.get("containers") or [] if isinstance(c, Mapping)]
    amounts = [(c, _gpu_amounts(c.get("resources"))) for c in containers]
    asked = [a for _, found in amounts for a in found]
    environ: dict[str, str] = {}
    for container in containers:
        entries = container.get("env")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Mapping) and "name" in entry and entry.get("value") is not None:
                environ[str(entry["name"])] = str(entry["value"])
    volumes = spec.get("volumes") if isinstance(spec.get("volumes"), list) else []
    shm = next((str(_deep(v, "emptyDir", "sizeLimit") or "unlimited") for v in volumes or [] if _deep(v, "emptyDir", "medium") == "Memory"), "")
    selector = spec.get("nodeSelector")
    tolerations = spec.get("tolerations")
    claims = any(_deep(c, "resources", "claims") for c in containers)  # dynamic resource allocation
    return Pod(
        name=name, gpus=max([_count(a) for _, a, _ in asked] or [int(claims)]), resource=asked[0][0] if asked else "claim" if claims else "",
        limits=any(limit for _, _, limit in asked) or not asked, amount=asked[0][1] if asked else "",
        without=tuple(str(c.get("name", "")) for c, found in amounts if not found and not claims),
        images=tuple(str(c["image"]) for c in containers if c.get("image")),
        runtime_class=str(spec.get("runtimeClassName") or ""), shm=shm, environ=environ,
        selector=tuple(f"{k}={v}" for k, v in selector.items()) if isinstance(selector, Mapping) else (),
        tolerates=tuple(str(t.get("key", "*")) for t in tolerations if isinstance(t, Mapping)) if isinstance(tolerations, list) else (),
        ref=_line_of(evidence, *(f"{a[0]}: {a[1]}" for a in asked[:1]), *(a[0] for a in asked[:1]), "containers:", "image:"),
    )


def _dockerfile(evidence: Evidence, text: str) -> Iterable[Fact]:
    images = list(_FROM.finditer(text))
    if not images or not _DOCKERFILE.search(text):
        return
    image = images[-1]["image"]
    yield Container(image=image, image_cuda=image_cuda(image), refs=(evidence.ref_at(images[-1].start("image"), "image"),))
    values: dict[str, str] = {}
    lines: dict[str, Ref] = {}
    for match in _ENV.finditer(text):
        rest = match["rest"].replace("\\\n", "  ")
        pairs = [(m["name"], m["value"].strip("\"'")) for m in _PAIR.finditer(rest)] if "=" in rest.split(None, 1)[0] else []
        if not pairs:
            name, _, value = rest.partition(" ")
            pairs = [(name, value.strip().strip("\"'"))]
        for name, value in pairs:
            values[name] = value
            offset = text.find(name, match.start())
            lines[name] = evidence.ref_at(offset if offset >= 0 else match.start())
    if values:
        yield Variables(values=values, lines=lines, refs=tuple(lines.values())[:4])
        if "NVIDIA_DRIVER_CAPABILITIES" in values:
            yield Container(capabilities=values["NVIDIA_DRIVER_CAPABILITIES"], refs=(lines["NVIDIA_DRIVER_CAPABILITIES"],))


def _variables(evidence: Evidence, environ: Mapping[str, str]) -> Iterable[Fact]:
    lines = {name: _line_of(evidence, name) for name in environ}
    if environ:
        yield Variables(values=dict(environ), lines=lines, refs=tuple(lines.values())[:4])


def _manifests(evidence: Evidence, found: list[Any]) -> Iterable[Fact]:
    pods = [_pod(evidence, name, spec) for document in found for name, spec in _pod_specs(document)]
    works = [p for p in pods if not any("device-plugin" in image or "dcgm" in image or "feature-discovery" in image for image in p.images)]
    classes = tuple(str(_deep(d, "metadata", "name")) for d in found if _deep(d, "kind") == "RuntimeClass")
    if works or classes:
        refs = tuple(dict.fromkeys(p.ref for p in works if p.ref))
        yield Kubernetes(
            pods=tuple(works), pod_without_gpu=not any(p.gpus or p.amount for p in works) if works else None,
            requested=max((p.gpus for p in works), default=None), runtime_classes=classes, refs=refs,
        )
    for pod in works:
        yield from _variables(evidence, pod.environ)
        cuda = next((c for image in pod.images if (c := image_cuda(image))), None)
        if cuda:
            yield Container(image=pod.images[0], image_cuda=cuda, runtime="kubernetes", refs=(pod.ref,) if pod.ref else ())


def _quadlet(evidence: Evidence, text: str) -> Iterable[Fact]:
    if "[Container]" not in text or not _QUADLET.search(text):
        return
    image = re.search(r"^Image=(\S+)", text, re.MULTILINE)
    gpu = re.search(r"^(?:AddDevice=nvidia\.com/\S+|PodmanArgs=.*--(?:gpus|device[ =]nvidia\.com))", text, re.MULTILINE)
    at = (gpu or image).start() if gpu or image else 0  # type: ignore[union-attr]
    run = Run(program="podman", image=image[1] if image else "", gpu=bool(gpu), gpus=gpu.group() if gpu else "", ref=evidence.ref_at(at))
    yield Container(**together([run]), refs=(evidence.ref_at(at),))  # type: ignore[arg-type]


def read(evidence: Evidence) -> Iterable[Fact]:
    """What the file asks for."""
    text = evidence.text[:MAX_YAML]
    yield from _dockerfile(evidence, text)
    yield from _quadlet(evidence, text)
    if not re.search(r"^[ \t]*(?:- )?(?:image|services|containers|kind|deploy|resources|limits|runtime):", text, re.MULTILINE):
        return
    found = documents(text)
    services = [_service(evidence, name, entry) for document in found for name, entry in _services(document)]
    if services:
        yield Container(**together(services), refs=tuple(dict.fromkeys(s.ref for s in services if s.ref)))  # type: ignore[arg-type]
        for service in services:
            yield from _variables(evidence, service.environ)
    yield from _manifests(evidence, found)
    if not services and not any(True for d in found for _ in _pod_specs(d)):
        yield from _fragment(evidence, found)


def _fragment(evidence: Evidence, found: list[Any]) -> Iterable[Fact]:
    """A part of a manifest: `resources:` alone."""
    for document in found:
        amounts = _gpu_amounts(_deep(document, "resources") or document)
        if amounts:
            ref = _line_of(evidence, amounts[0][0])
            pod = Pod(gpus=_count(amounts[0][1]), resource=amounts[0][0], amount=amounts[0][1], limits=any(a[2] for a in amounts), ref=ref)
            yield Kubernetes(pods=(pod,), requested=pod.gpus, pod_without_gpu=False, refs=(ref,))


def looks_like(evidence: Evidence) -> bool:
    """Whether it may be such a file, or hold one."""
    text = evidence.text
    return "image:" in text or "FROM " in text or "containers:" in text or "resources:" in text or "services:" in text or "[Container]" in text


SOURCES = (Source(kind="container_files", read=read, looks_like=looks_like, gives=(Container, Kubernetes, Variables), settle="the compose file or pod manifest"),)
