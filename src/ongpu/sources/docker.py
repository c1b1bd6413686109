"""Containers: run lines of docker, podman, nerdctl and apptainer; what the daemon, its settings and an image's banner say."""


import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ongpu.facts.container import Container, Run
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Get, Ref, Source
from ongpu.sources.commands import bare, parse, segments, split

ENGINES = ("docker", "podman", "nerdctl", "nvidia-docker", "nvidia-docker2")
APPTAINER = ("apptainer", "singularity")
MAX_TEXT = 400_000

# Options without a value; all others take one.
_FLAGS_TEXT = """
--detach --interactive --tty --rm --privileged --init --no-healthcheck --oom-kill-disable --read-only --sig-proxy
--publish-all --quiet --replace --rmi --tls-verify --disable-content-trust --no-hosts --http-proxy --env-host -q -P
--use-api-socket --userns-remap
"""
_FLAGS = frozenset(_FLAGS_TEXT.split())
_SHORT_FLAGS = frozenset("ditPq")
_APPTAINER_FLAGS_TEXT = """
--nv --nvccli --rocm --cleanenv -e --contain -c --containall -C --fakeroot -f --writable -w --writable-tmpfs
--no-home --pid -p --ipc -i --userns -u --no-privs --keep-privs --net -n --uts --compat --disable-cache --no-init
--sharens --unsquash
"""
_APPTAINER_FLAGS = frozenset(_APPTAINER_FLAGS_TEXT.split())
# CUDA of NVIDIA's monthly images, by the first month that brought it. https://docs.nvidia.com/deeplearning/frameworks/support-matrix/
_MONTHLY = (
    ("26.01", "13.1"), ("25.12", "13.1"), ("25.08", "13.0"), ("25.04", "12.9"), ("25.01", "12.8"), ("24.08", "12.6"), ("24.06", "12.5"), ("24.03", "12.4"),
    ("23.11", "12.3"), ("23.08", "12.2"), ("23.03", "12.1"), ("23.01", "12.0"), ("22.09", "11.8"), ("22.05", "11.7"), ("22.01", "11.6"),
    ("21.11", "11.5"), ("21.07", "11.4"), ("21.04", "11.3"), ("21.02", "11.2"), ("20.10", "11.1"), ("20.06", "11.0"), ("19.11", "10.2"),
)
_IMAGE_CUDA = (
    lazy(r"(?:^|/)cuda(?:gl|-dl-base)?:(?P<v>\d{1,2}\.\d)"),
    lazy(r"cuda[-_]?(?P<v>\d{1,2}\.\d)"),
    lazy(r"[-_:.]cu(?P<major>\d{2})(?P<minor>\d)(?!\d)"),
    lazy(r"cuda[-_]?(?P<major>1\d)(?P<minor>\d)(?!\d)"),
)
_NGC = lazy(r"nvcr\.io/nvidia/[\w\-]+:(?P<v>\d\d\.\d\d)-")
# Images whose purpose is a GPU, where the name says so.
GPU_IMAGE = lazy(
    r"nvidia|cuda|gpu|nvcr\.io|pytorch|tensorflow|ollama|vllm|text-generation-inference|text-embeddings-inference|tritonserver|jax|rapids|comfyui|"
    r"stable-diffusion|whisper|llama|sglang|localai|immich-machine-learning|frigate|deepspeed|axolotl|unsloth|xinference|automatic1111|paddle|mxnet|caffe|"
    r"kohya|faster-whisper|invokeai|tabby|open-webui|openpose|colmap|nerfstudio|isaac|deepstream|torch", re.IGNORECASE
)
_BANNER_CUDA = lazy(r"^[ =]*(?:== CUDA ==|CUDA Version (?P<v>\d{1,2}\.\d{1,2})(?:\.\d{1,3})?[ ]*$)", re.MULTILINE)
_BANNER_RELEASE = lazy(r"^NVIDIA Release (?P<v>\d\d\.\d\d)", re.MULTILINE)
_NO_DRIVER = lazy(r"WARNING: The NVIDIA Driver was not detected|NVIDIA Driver was not detected\.\s+GPU functionality", re.IGNORECASE)
_INFO = lazy(
    r"^[ \t]*(?P<key>Operating System|Default Runtime|Runtimes|Cgroup Driver|Context|Kernel Version|rootless|Docker Root Dir|Name|Server Version|OSType):?[ \t]*(?P<value>.*)$",
    re.MULTILINE,
)
_CONTEXT = lazy(r"^(?P<name>[\w.-]+)[ \t]*\*[ \t]+(?P<rest>.*)$", re.MULTILINE)
_SHOWN = lazy(r"^[\w.-]+$", re.MULTILINE)  # the only line of `docker context show`
_DESKTOP = lazy(r"desktop-linux[ \t]*\*|\.docker/desktop/docker\.sock|\.docker/run/docker\.sock|Operating System:\s*Docker Desktop|dockerDesktopLinuxEngine|Current context is now \"?desktop-linux"
                      r"|\bDocker Desktop\b|linuxkit|systemctl --user (?:start|enable|restart|status)(?: --now)? docker-desktop", re.IGNORECASE)
_SNAP = lazy(r"/snap/(?:bin/)?docker|/var/snap/docker|snap services docker|snap\.docker\.dockerd|docker\.dockerd\s+(?:enabled|active)|snap (?:install|list|version)[^\n]{0,40}docker"
                   r"|docker\s+\d+\.\d+\.\d+\s+\d+\s+latest/stable", re.IGNORECASE)
_ROOTLESS = lazy(r"rootless(?:kit|: true)|\bdockerd-rootless|/run/user/\d+/docker\.sock|\brootless (?:docker|podman|mode)|name=rootless", re.IGNORECASE)
_DEFAULT_RUNTIME = lazy(r"[\"']?default[-_]runtime(?:_name)?[\"']?\s*[:=]\s*[\"'](?P<v>[\w-]+)[\"']|default_runtime\]\s*\n(?:[^\[\n]*\n){0,4}?[^\n]*runtime_engine\s*=\s*\"(?P<w>[\w/-]*)\"", re.IGNORECASE)
_NO_CGROUPS = lazy(r"^[ \t]*(?P<hash>#?)[ \t]*no-cgroups[ \t]*=[ \t]*(?P<v>true|false)", re.MULTILINE)
_CGROUP = lazy(r"native\.cgroupdriver=(?P<v>systemd|cgroupfs)|\"?Cgroup ?Driver\"?:\s*(?P<w>systemd|cgroupfs)", re.IGNORECASE)
_TOOLKIT = lazy(
    r"NVIDIA Container (?:Toolkit|Runtime)(?: CLI| Hook)? version (?P<v>\d+\.\d+(?:\.\d+)?)|(?:ii\s+)?nvidia-container-toolkit(?:-base)?(?::amd64)?[ \t/=-]+(?:stable,?\w*\s+)?(?P<w>\d+\.\d+\.\d+)"
    r"|nvidia-docker2[ \t]+(?P<x>\d+\.\d+\.\d+)", re.IGNORECASE)
_TOOLKIT_ABSENT = lazy(
    r"nvidia-ctk: (?:command )?not found|command not found: nvidia-ctk|nvidia-container-cli: (?:command )?not found|command not found: nvidia-container-cli|"
    r"no packages found matching nvidia-container-toolkit|package nvidia-container-toolkit is not installed|Unable to locate package nvidia-(?:container-toolkit|docker2)|"
    r"No match for argument: nvidia-container-toolkit|nvidia-container-toolkit\S* is not installed", re.IGNORECASE)
_INSIDE = lazy(r"/\.dockerenv|^root@[0-9a-f]{12}:|\b(?:docker|containerd|kubepods)/[0-9a-f]{20,}|docker-[0-9a-f]{20,}\.scope|NVIDIA_REQUIRE_CUDA=|This container image and its contents", re.MULTILINE)


def image_cuda(image: str) -> str | None:
    """CUDA that an image's name tells: "12.1" of "pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime"; None where it tells none."""
    if month := _NGC.search(image):
        return next((cuda for since, cuda in _MONTHLY if month["v"] >= since), None)
    for pattern in _IMAGE_CUDA:
        if match := pattern.search(image):
            found = match.groupdict()
            return found.get("v") or f"{found['major']}.{found['minor']}"
    return None


def _options(words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The options of `docker run` with their values, and what follows them: the image and its command."""
    options: dict[str, list[str]] = {}
    at = 0
    while at < len(words):
        word = words[at]
        if not word.startswith("-") or word == "-":
            break
        if word == "--":
            at += 1
            break
        name, equals, value = word.partition("=")
        at += 1
        if re.fullmatch(r"-[a-zA-Z]{2,}", name) and set(name[1:]) <= _SHORT_FLAGS:
            continue
        if re.fullmatch(r"-[evpwumlhc].+", name):  # -v/a:/b, -eX=y
            options.setdefault(word[:2], []).append(word[2:])
            continue
        if not equals and name not in _FLAGS and not (len(name) == 2 and name[1] in _SHORT_FLAGS) and at < len(words):
            if re.fullmatch(r"-[a-zA-Z]{2,}", name):  # -itv /a:/b
                name = f"-{name[-1]}"
            value = words[at]
            at += 1
        options.setdefault(name, []).append(value if equals or value else "true")
    return options, list(words[at:])


def _environ(values: Iterable[str]) -> dict[str, str]:
    found = {}
    for value in values:
        name, equals, rest = value.strip("\"'").partition("=")
        if equals:
            found[name] = rest.strip("\"'")
    return found


def _engine_run(program: str, words: Sequence[str], ref: Ref) -> Run | None:
    """`docker [options] [container] run ...`."""
    at = next((i for i, word in enumerate(words[:8]) if word in ("run", "create")), None)
    if at is None or (at and words[at - 1] in ("compose", "context", "network", "volume", "builder", "stack")):
        return None
    options, rest = _options(words[at + 1 :])
    environ = _environ([*options.get("-e", ()), *options.get("--env", ())])
    devices = options.get("--device", [])
    cdi = next((d for d in devices if d.startswith("nvidia.com/")), "")
    gpus = next(iter(options.get("--gpus", ())), "").strip("\"'") or cdi
    runtime = next(iter(options.get("--runtime", ())), "")
    hooks = any("nvidia" in v or "hooks" in v for v in options.get("--hooks-dir", ()))
    asked = bool(gpus) or "nvidia" in runtime or hooks or program.startswith("nvidia-docker")
    return Run(
        program=program, image=rest[0] if rest else "", name=next(iter(options.get("--name", ())), ""),
        gpu=asked, gpus=gpus or (f"--runtime={runtime}" if "nvidia" in runtime else ""),
        nodes=tuple(d.partition(":")[0] for d in devices if "/dev/nvidia" in d),
        privileged="--privileged" in options, shm=next(iter(options.get("--shm-size", ())), ""),
        ipc=next(iter(options.get("--ipc", ())), ""), environ=environ, argv=tuple(rest[1:]), ref=ref,
    )


def _apptainer_run(words: Sequence[str], ref: Ref) -> Run | None:
    at = next((i for i, word in enumerate(words[:6]) if word in ("exec", "run", "shell", "instance")), None)
    if at is None:
        return None
    gpu, i = any(w in ("--nv", "--nvccli") for w in words), at + 1
    while i < len(words) and (words[i].startswith("-") or words[i] == "start"):
        i += 1 if "=" in words[i] or words[i] in _APPTAINER_FLAGS or words[i] == "start" else 2
    rest = words[i:]
    return Run(program="apptainer", image=rest[0] if rest else "", gpu=gpu, gpus="--nv" if gpu else "", argv=tuple(rest[1:]), ref=ref)


def runs(evidence: Evidence) -> Iterator[Run]:
    """Every container that a command line starts."""
    for ran in parse(evidence):
        found = run_of(ran.program, ran.argv, ran.ref)
        if found:
            yield found
        elif ran.program in ("bash", "sh", "ssh") and any(engine in ran.text for engine in (" docker run", " podman run")):
            for part in segments(split(ran.text[max(ran.text.find("docker run"), ran.text.find("podman run"), 0) :])):
                words = bare(part)
                inner = run_of(words[0], words, ran.ref) if words else None
                if inner:
                    yield inner


def run_of(program: str, argv: Sequence[str], ref: Ref) -> Run | None:
    """The container that this command starts; None where it starts none."""
    if program in ENGINES:
        found = _engine_run(program, argv[1:], ref)
        return found if found and (found.image or len(argv) > 3) else None
    return _apptainer_run(argv[1:], ref) if program in APPTAINER else None


def _settings(evidence: Evidence, text: str) -> tuple[dict[str, object], list[Ref]]:
    """What `docker info`, contexts, daemon.json and config.toml say."""
    found: dict[str, object] = {}
    refs: list[Ref] = []

    def note(name: str, value: object, at: int) -> None:
        if name not in found and value not in (None, ""):
            found[name] = value
            refs.append(evidence.ref_at(at, name))

    if match := _DESKTOP.search(text):
        note("docker_desktop", True, match.start())
        if match.group().lower() == "linuxkit":
            note("kernel_vm", "linuxkit", match.start())
    command = evidence.command or ""
    if ("context" in command or "DOCKER ENDPOINT" in text) and (match := _CONTEXT.search(text)):
        note("context", match["name"], match.start())
    if re.match(r"(?:sudo )?docker context show\b", command.strip()):
        shown = next((m for m in _SHOWN.finditer(text) if m.group() != command.strip()), None)
        note("context", shown.group() if shown else None, shown.start() if shown else 0)
    if "info" in command or "Server Version:" in text or "Default Runtime:" in text or "Cgroup Driver" in text:
        for match in _INFO.finditer(text):
            key, value = match["key"], match["value"].strip()
            if key == "Default Runtime":
                note("default_runtime", value, match.start())
            elif key == "Runtimes":
                names = tuple(value.split())
                note("runtimes", names, match.start())
                note("toolkit_configured", any("nvidia" in name for name in names), match.start())
            elif key == "Context" and value:
                note("context", value, match.start())
    if match := _CGROUP.search(text):
        note("cgroup_driver", match["v"] or match["w"], match.start())
    if match := _DEFAULT_RUNTIME.search(text):
        note("default_runtime", (match["v"] or match["w"]).rsplit("/", 1)[-1], match.start())
    if re.search(r"\"nvidia\"\s*:\s*\{[^}]{0,200}\"?(?:path|runtimeArgs)|runtimes\.nvidia|runtimes\.\"nvidia\"", text):
        note("toolkit_configured", True, re.search(r"nvidia", text).start())  # type: ignore[union-attr]
    if match := _NO_CGROUPS.search(text):
        note("no_cgroups", match["v"] == "true" and not match["hash"], match.start())
    if match := _SNAP.search(text):
        note("snap", True, match.start())
    if match := _ROOTLESS.search(text):
        note("rootless", True, match.start())
    if match := _TOOLKIT.search(text):
        note("toolkit", match["v"] or match["w"] or match["x"], match.start())
    elif match := _TOOLKIT_ABSENT.search(text):
        note("toolkit", "", match.start())
        found["toolkit"] = ""
        refs.append(evidence.ref_at(match.start(), "toolkit"))
    return found, refs


def _banner(evidence: Evidence, text: str) -> tuple[dict[str, object], list[Ref]]:
    """What an NVIDIA image prints when it starts, and other signs that we are inside a container."""
    found: dict[str, object] = {}
    refs: list[Ref] = []
    release = _BANNER_RELEASE.search(text)
    cuda = next((m for m in _BANNER_CUDA.finditer(text) if m["v"]), None) if "== CUDA ==" in text or "This container image" in text else None
    if match := _NO_DRIVER.search(text):
        found |= {"inside": True, "driver_seen": False}
        refs.append(evidence.ref_at(match.start(), "driver_seen"))
    if cuda:
        found |= {"inside": True, "image_cuda": cuda["v"]}
        refs.append(evidence.ref_at(cuda.start(), "image_cuda"))
    elif release:
        month = next((c for since, c in _MONTHLY if release["v"] >= since), None)
        found |= {"inside": True, "image_cuda": month} if month else {"inside": True}
        refs.append(evidence.ref_at(release.start(), "image_cuda"))
    if match := _INSIDE.search(text):
        found["inside"] = True
        refs.append(evidence.ref_at(match.start(), "inside"))
    return found, refs


def together(found: Sequence[Run]) -> dict[str, object]:
    """The fields of Container that several runs decide together."""
    values: dict[str, object] = {"runs": tuple(found), "gpu_requested": any(run.gpu for run in found)}
    for run in found:
        if run.privileged:
            values["privileged"] = True
        cuda = image_cuda(run.image)
        if cuda:
            values.setdefault("image_cuda", cuda)
        if run.image:
            values.setdefault("image", run.image)
        value = _capability(run.gpus, run.environ)
        if value is not None:
            values.setdefault("capabilities", value)
    values["runtime"] = found[0].program if found[0].program != "compose" else "docker"
    return values


def _capability(gpus: str, environ: Mapping[str, str]) -> str | None:
    if match := re.search(r"capabilities=\"?([\w,]+)", gpus):
        return match[1]
    return environ.get("NVIDIA_DRIVER_CAPABILITIES")


def read(evidence: Evidence) -> Iterable[Fact]:
    """The containers that were started, and what is known about docker here."""
    text = evidence.text[:MAX_TEXT]
    settings, refs = _settings(evidence, text)
    banner, more = _banner(evidence, text)
    found = _unique(runs(evidence))
    values: dict[str, object] = {**settings, **banner}
    if found:
        values = {**together(found), **values}
        refs = [*[r.ref for r in found if r.ref], *refs]
    told = evidence.command or ""
    if re.match(r"(?:sudo )?(?:docker|podman|nerdctl|kubectl)\b.{0,40}\bexec\b", told):
        values["inside"] = True
        values.setdefault("runtime", "kubernetes" if "kubectl" in told else told.replace("sudo ", "").split()[0])
        refs.append(evidence.ref(evidence.first_line, told, "inside"))
    if values:
        yield Container(**values, refs=tuple(dict.fromkeys([*refs, *more])))  # type: ignore[arg-type]


def _unique(found: Iterable[Run]) -> list[Run]:
    kept: list[Run] = []
    for run in found:
        if not any((run.image, run.gpu, run.argv, run.ref) == (k.image, k.gpu, k.argv, k.ref) for k in kept):
            kept.append(run)
    return kept


def looks_like(evidence: Evidence) -> bool:
    """Whether containers are spoken of."""
    low = (evidence.text + (evidence.command or "")).lower()
    return bool(_INSIDE.search(evidence.text)) or any(word in low for word in ("docker", "podman", "nerdctl", "apptainer", "singularity", "container", "nvidia-ctk", "runtime", "no-cgroups", "== cuda ==", "linuxkit"))


SOURCES = (
    Source(
        kind="docker", read=read, looks_like=looks_like, gives=(Container,),
        get=(
            Get(argv=("docker", "info"), limit=4.0, only="linux"), Get(argv=("docker", "context", "ls"), limit=3.0, only="linux"),
            Get(path="/etc/docker/daemon.json", only="linux"), Get(path="/etc/nvidia-container-runtime/config.toml", only="linux"),
        ),
        settle="docker info; docker context ls; nvidia-ctk --version; cat /etc/docker/daemon.json",
    ),
)
