"""NVIDIA_DRIVER_CAPABILITIES leaves out the libraries that the program needs."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine, Variables
from ongpu.facts.framework import Jax, OnnxRuntime, TensorFlow, Torch
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind
from ongpu.model import Certainty, Finding, Layer, Ref, Rule, Severity, Text

KNOWN = {"compute", "utility", "video", "graphics", "display", "compat32", "ngx", "all"}


def _value(container: Container | None, variables: Variables | None, symptoms: Symptoms | None) -> tuple[str | None, tuple[Ref, ...]]:
    if symptoms and symptoms.has("capabilities-in-gpus-flag"):
        return symptoms.value("value", "capabilities-in-gpus-flag"), symptoms.cite("capabilities-in-gpus-flag")
    if container and container.capabilities:
        return container.capabilities, container.about("capabilities")
    if variables and (told := variables.get("NVIDIA_DRIVER_CAPABILITIES")):
        return told, variables.cite("NVIDIA_DRIVER_CAPABILITIES")
    if symptoms and symptoms.has("capabilities-value"):
        return symptoms.value("value", "capabilities-value"), symptoms.cite("capabilities-value")
    return None, ()


def check(
    container: Container | None, variables: Variables | None, symptoms: Symptoms | None, torch: Torch | None, tensorflow: TensorFlow | None,
    jax: Jax | None, onnx: OnnxRuntime | None, driver: Driver | None, machine: Machine | None,
) -> Iterator[Finding]:
    value, lines = _value(container, variables, symptoms)
    have = {part.strip() for part in value.split(",")} if value else set()
    have &= KNOWN
    if "all" in have:
        return
    missed = blind(symptoms, torch, tensorflow, jax, onnx)
    video = symptoms.cite("video-library-missing") if symptoms else ()
    graphics = symptoms.cite("graphics-library-missing") if symptoms else ()
    unsupported = symptoms.cite("capability-unsupported") if symptoms else ()
    smi = symptoms.cite("smi-missing-inside", "nvml-library-missing") if symptoms else ()
    boxed = bool(container and (container.inside or container.runs or container.image)) or bool(symptoms and symptoms.has("container-told")) or bool(lines)
    boxed = boxed or bool(variables and variables.get("NVIDIA_VISIBLE_DEVICES"))
    lacks: list[tuple[str, str, tuple[Ref, ...], Certainty]] = []
    if have and "compute" not in have and not (video or graphics):
        works = bool(torch and torch.available)
        if not works:
            lacks.append(("compute", "compute,utility", missed, Certainty.CERTAIN if missed else Certainty.LIKELY))
    if video and "video" not in have and boxed:
        lacks.append(("video", "compute,utility,video", video, Certainty.CERTAIN if have else Certainty.LIKELY))
    if video and not boxed and symptoms and symptoms.has("video-library-unloadable"):
        yield Finding(certainty=Certainty.POSSIBLE, variant="perhaps", fixes=(), refs=symptoms.cite("video-library-unloadable", "video-library-missing"))
        return
    if graphics and not have & {"graphics", "display"} and boxed:
        lacks.append(("graphics", "compute,utility,graphics", graphics, Certainty.CERTAIN if have else Certainty.LIKELY))
    if have and "utility" not in have and smi and not lacks:
        lacks.append(("utility", "compute,utility", smi, Certainty.CERTAIN))
    for name, want, refs, sure in lacks[:1]:
        yield Finding(certainty=sure, variant="set" if value else "", values={"value": value or "compute,utility", "lacks": name, "want": want}, refs=(*lines, *refs))
    if unsupported and not lacks:
        yield Finding(certainty=Certainty.LIKELY, variant="unsupported", values={"value": value or "?"}, refs=(*unsupported, *lines))


RULE = Rule(
    slug="driver-capabilities-missing",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=("driver-not-installed", "driver-module-not-loaded", "container-no-gpu-flag", "cuda-unavailable", "cuda-lib-missing", "container-toolkit-missing", "library-has-no-gpu-path"),
    settle=("docker exec CONTAINER env | grep NVIDIA_", "docker exec CONTAINER ldconfig -p | grep -E 'libcuda|nvcuvid|libGLX_nvidia'"),
    see=(
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html#driver-capabilities",
        "https://github.com/NVIDIA/DALI/issues/2362",
    ),
    en=Text(
        title="The container lacks the driver's {lacks} libraries: NVIDIA_DRIVER_CAPABILITIES does not name \"{lacks}\"",
        why="The toolkit mounts only the driver's libraries of the capabilities asked for; the default is utility,compute. Video needs libnvcuvid and libnvidia-encode (NVDEC, NVENC), graphics the OpenGL, EGL, Vulkan and OptiX libraries.",
        fix="Start the container with -e NVIDIA_DRIVER_CAPABILITIES={want} (or all), or set it by ENV in the Dockerfile, environment in compose or env in the pod; with docker: --gpus 'all,\"capabilities={want}\"'. Create the container anew.",
    ),
    zh=Text(
        title="容器里缺少驱动的 {lacks} 库：NVIDIA_DRIVER_CAPABILITIES 没有包含 “{lacks}”",
        why="工具包只挂载所申请能力对应的驱动库，默认是 utility,compute。video 需要 libnvcuvid 和 libnvidia-encode（NVDEC、NVENC），graphics 需要 OpenGL、EGL、Vulkan 和 OptiX 的库。",
        fix="用 -e NVIDIA_DRIVER_CAPABILITIES={want}（或 all）启动容器，或在 Dockerfile 的 ENV、compose 的 environment、Pod 的 env 中设置；docker 也可用 --gpus 'all,\"capabilities={want}\"'。需要重新创建容器。",
    ),
    variants={
        "perhaps": (
            Text(
                title="The driver's video libraries (libnvidia-encode, libnvcuvid) are not there: in a container NVIDIA_DRIVER_CAPABILITIES lacks \"video\"",
                why="The encoder and decoder libraries belong to the driver. A container gets them only with the capability video (the default is utility,compute), while CUDA works there without them. "
                "On a bare machine the distribution's package of them is missing. A driver version of \"(unknown)\" in FFmpeg's message is this, not an old driver.",
                fix="In a container: start it with -e NVIDIA_DRIVER_CAPABILITIES=compute,utility,video (or all) and create it anew. On the machine itself: install the package of the driver's own version "
                "(libnvidia-encode-XXX and libnvidia-decode-XXX on Ubuntu; libnvidia-encode1, libnvcuvid1 on Debian; nvidia-driver-cuda-libs on Fedora). ldconfig -p | grep -E 'nvidia-encode|nvcuvid' shows them.",
            ),
            Text(
                title="找不到驱动的视频库（libnvidia-encode、libnvcuvid）：若在容器里，是 NVIDIA_DRIVER_CAPABILITIES 缺少 “video”",
                why="编码和解码库属于驱动。容器只有声明了 video 能力才会得到它们（默认是 utility,compute），而 CUDA 没有它们也能用。若在物理机上，则是发行版对应的软件包没有安装。FFmpeg 报的驱动版本 “(unknown)” 就是这种情况，不是驱动旧。",
                fix="容器：用 -e NVIDIA_DRIVER_CAPABILITIES=compute,utility,video（或 all）启动，并重新创建容器。物理机：安装与驱动版本一致的软件包（Ubuntu 为 libnvidia-encode-XXX、libnvidia-decode-XXX；Debian 为 libnvidia-encode1、libnvcuvid1；Fedora 为 nvidia-driver-cuda-libs）。用 ldconfig -p | grep -E 'nvidia-encode|nvcuvid' 查看。",
            ),
        ),
        "set": (
            Text(
                title="NVIDIA_DRIVER_CAPABILITIES is {value}: \"{lacks}\" is missing",
                why="The toolkit mounts only the driver's libraries of the capabilities named: compute brings libcuda, utility nvidia-smi and NVML, video libnvcuvid and libnvidia-encode, graphics OpenGL, EGL, Vulkan and OptiX. Naming some replaces the default utility,compute.",
                fix="Set NVIDIA_DRIVER_CAPABILITIES={want} (or all), with NVIDIA_VISIBLE_DEVICES=all where the runtime is asked by variables, and create the container anew.",
            ),
            Text(
                title="NVIDIA_DRIVER_CAPABILITIES 为 {value}：缺少 “{lacks}”",
                why="工具包只挂载所列能力对应的驱动库：compute 提供 libcuda，utility 提供 nvidia-smi 和 NVML，video 提供 libnvcuvid 和 libnvidia-encode，graphics 提供 OpenGL、EGL、Vulkan 和 OptiX。一旦显式设置，就会取代默认的 utility,compute。",
                fix="设置 NVIDIA_DRIVER_CAPABILITIES={want}（或 all）；通过变量申请 GPU 时同时设置 NVIDIA_VISIBLE_DEVICES=all。然后重新创建容器。",
            ),
        ),
        "unsupported": (
            Text(
                title="NVIDIA_DRIVER_CAPABILITIES names a capability that this toolkit does not know ({value})",
                why="Known are compute, utility, video, graphics, display, ngx, compat32 and all; Jetson allows fewer.",
                fix="Correct the value (for instance NVIDIA_DRIVER_CAPABILITIES=compute,utility or all) and create the container anew.",
            ),
            Text(
                title="NVIDIA_DRIVER_CAPABILITIES 中有工具包不认识的能力（{value}）",
                why="可用的有 compute、utility、video、graphics、display、ngx、compat32 和 all；Jetson 支持的更少。",
                fix="改正取值（例如 NVIDIA_DRIVER_CAPABILITIES=compute,utility 或 all）并重新创建容器。",
            ),
        ),
    },
)
