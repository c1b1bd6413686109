"""The image's CUDA needs a newer driver than the host has."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge.cuda import cuda_of_driver, oldest_driver_for, out_of_reach
from ongpu.lazy import replace
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

FIXES = (Fix("update-driver"),)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def check(symptoms: Symptoms | None, container: Container | None, driver: Driver | None, gpus: Gpus | None) -> Iterator[Finding]:
    for finding in _check(symptoms, container, driver):
        card, last = _barred(str(finding.values["need"]), gpus)
        values = {**finding.values, "card": card, "last": last}
        yield replace(finding, variant="barred", values=values, fixes=(), refs=(*finding.refs, *(gpus.refs[:1] if gpus else ()))) if last else finding


def _barred(cuda: str, gpus: Gpus | None) -> tuple[str | None, str | None]:
    """(card, its last driver branch), where that is older than the image's CUDA needs: then no newer driver may be advised."""
    for name, capability in gpus.cards() if gpus else ():
        if (found := out_of_reach(cuda, capability)) and found[0] == "driver":
            return name, found[1]
    return None, None


def _check(symptoms: Symptoms | None, container: Container | None, driver: Driver | None) -> Iterator[Finding]:
    have = driver.version or driver.module if driver else None
    able = (driver.cuda if driver else None) or (cuda_of_driver(have) if have else None)
    image = container.image_cuda if container else None
    name = (container.image if container else None) or "the image"
    refused = symptoms.cite("requirement-unsatisfied") if symptoms else ()
    what = symptoms.value("what", "requirement-unsatisfied") if symptoms else None
    wanted = symptoms.value("version", "requirement-unsatisfied") if symptoms and what and what.strip().lower().startswith("cuda") else None
    about = driver.about("version", "cuda") if driver and (have or able) else ()
    needs = oldest_driver_for(wanted or image or "") if wanted or image else None
    values = {"need": (wanted if have or able else what) or image or what or "?", "have": have or "?", "able": able or "?", "image": name, "driver": needs or "?"}
    if refused:
        yield Finding(certainty=Certainty.CERTAIN, variant="refused" if wanted and (have or able) else "refused-plain", values=values, fixes=FIXES, refs=(*refused, *about))
        return
    older = symptoms.cite("image-newer-than-driver") if symptoms else ()
    if older and symptoms:
        wanted, able = symptoms.value("need", "image-newer-than-driver") or "?", symptoms.value("able", "image-newer-than-driver") or "?"
        yield Finding(certainty=Certainty.CERTAIN, values={**values, "need": wanted, "able": able, "driver": oldest_driver_for(wanted) or "?"}, fixes=FIXES, refs=(*older, *about))
        return
    banner = symptoms.seen("banner-driver-release") if symptoms else ()
    if banner:
        release = next((h.groups["need"] for h in banner if h.groups.get("need")), "?")
        found = (symptoms.value("have", "banner-driver-found", "banner-driver-release") if symptoms else None) or have
        yield Finding(certainty=Certainty.CERTAIN, variant="banner", values={**values, "need": release, "have": found or "?"}, fixes=FIXES, refs=(*(h.ref for h in banner), *(symptoms.cite("banner-driver-found") if symptoms else ()), *about))
        return
    failed = symptoms.cite("forward-compat-804", "driver-older-than-image") if symptoms else ()
    compat = bool(symptoms and symptoms.has("forward-compat-804"))
    newer = bool(image and able and _numbers(image)[:2] > _numbers(able)[:2])
    boxed = bool(container and (container.inside or container.runs or image)) or bool(symptoms and symptoms.has("container-told"))
    if newer and failed:
        yield Finding(certainty=Certainty.CERTAIN, values=values, fixes=FIXES, refs=(*failed, *about, *(container.refs[:3] if container else ())))
    elif newer and image and able and _numbers(image)[0] > _numbers(able)[0]:
        yield Finding(certainty=Certainty.LIKELY, values=values, fixes=FIXES, refs=(*about, *(container.refs[:3] if container else ())))
    elif compat and boxed:
        yield Finding(certainty=Certainty.LIKELY, variant="compat", values=values, fixes=FIXES, refs=(*failed, *about))
    elif failed and boxed and image and not able:
        yield Finding(certainty=Certainty.LIKELY, variant="unknown", values=values, fixes=FIXES, refs=(*failed, *(container.refs[:3] if container else ())))


RULE = Rule(
    slug="container-image-cuda-too-new",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=("driver-too-old-for-cuda", "container-no-gpu-flag", "container-toolkit-missing", "docker-desktop-vm", "ptx-too-new"),
    settle=("nvidia-smi", "docker image inspect IMAGE --format '{{.Config.Env}}'"),
    see=(
        "https://docs.nvidia.com/deploy/cuda-compatibility/",
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html#constraints",
        "https://github.com/NVIDIA/nvidia-docker/issues/1442",
    ),
    en=Text(
        title="The image has CUDA {need}, the host's driver{have: *} knows only up to CUDA {able}",
        why="A container uses the host's driver. An image ({image}) with a newer CUDA needs a newer driver (or the forward-compatibility package, which works on data-center cards only).",
        fix="Update the host's driver ({driver:* or newer |}for CUDA {need}), or take an image tag whose CUDA is not above {able}.",
    ),
    zh=Text(
        title="镜像自带 CUDA {need}，而宿主机驱动{have: *} 最高只支持 CUDA {able}",
        why="容器使用宿主机的驱动。CUDA 更新的镜像（{image}）需要更新的驱动（或前向兼容包，它只适用于数据中心卡）。",
        fix="更新宿主机驱动（CUDA {need} 所需的版本{driver:：* 或更新}），或换用 CUDA 不高于 {able} 的镜像标签。",
    ),
    variants={
        "barred": (
            Text(
                title="The image has CUDA {need}, and no driver that supports the host's {card} runs that",
                why="A container uses the host's driver. Branch {last} is the last that supports the {card}; CUDA {need} needs {driver:* or newer|a newer one}.",
                fix="Leave the driver as it is: a newer branch would leave the card without any. Take an image tag whose CUDA the driver knows (nvidia-smi shows it){able:, not above *}, or use a newer card.",
            ),
            Text(
                title="镜像自带 CUDA {need}，而支持宿主机 {card} 的驱动都跑不了它",
                why="容器使用宿主机的驱动。{last} 是支持 {card} 的最后一个驱动分支；CUDA {need} 需要{driver: * 或更新|更新的驱动}。",
                fix="不要升级驱动：更新的分支不再支持这张卡。换用驱动支持的 CUDA 的镜像标签（用 nvidia-smi 查看）{able:，不高于 *}，或换新卡。",
            ),
        ),
        "refused": (
            Text(
                title="The image requires CUDA {need}, the host's driver {have} offers CUDA {able}: the NVIDIA hook refuses to start it",
                why="nvidia-container-cli compares NVIDIA_REQUIRE_CUDA of the image with the newest CUDA of the host's driver before the container starts (unsatisfied condition).",
                fix="Update the NVIDIA driver on the host ({driver} or newer), or use an image built for CUDA {able} or older. NVIDIA_DISABLE_REQUIRE=1 only skips the check: with the same CUDA major version it may work, otherwise it fails later.",
            ),
            Text(
                title="镜像要求 CUDA {need}，宿主机驱动 {have} 只提供 CUDA {able}：NVIDIA hook 拒绝启动",
                why="容器启动前，nvidia-container-cli 会用镜像的 NVIDIA_REQUIRE_CUDA 与宿主机驱动支持的最高 CUDA 比较（unsatisfied condition）。",
                fix="更新宿主机的 NVIDIA 驱动（{driver} 或更新），或使用 CUDA {able} 及以下的镜像。NVIDIA_DISABLE_REQUIRE=1 只是跳过检查：CUDA 主版本相同时可能可用，否则之后仍会失败。",
            ),
        ),
        "refused-plain": (
            Text(
                title="The image requires {need:*|a newer CUDA}, and the host's driver is older: the NVIDIA hook refuses to start it",
                why="nvidia-container-cli compares NVIDIA_REQUIRE_CUDA of the image with the newest CUDA of the host's driver before the container starts (unsatisfied condition). A container uses the host's driver.",
                fix="Update the NVIDIA driver on the host ({driver} or newer; nvidia-smi shows the version and its CUDA), or use an image tag with an older CUDA. NVIDIA_DISABLE_REQUIRE=1 only skips the check.",
            ),
            Text(
                title="镜像要求 {need:*|更新的 CUDA}，而宿主机驱动更旧：NVIDIA hook 拒绝启动",
                why="容器启动前，nvidia-container-cli 会用镜像的 NVIDIA_REQUIRE_CUDA 与宿主机驱动支持的最高 CUDA 比较（unsatisfied condition）。容器使用宿主机的驱动。",
                fix="更新宿主机的 NVIDIA 驱动（{driver} 或更新；nvidia-smi 可看版本及其 CUDA），或换用 CUDA 更旧的镜像标签。NVIDIA_DISABLE_REQUIRE=1 只是跳过检查。",
            ),
        ),
        "banner": (
            Text(
                title="The image was built for driver {need} or later, the host has {have}",
                why="The entrypoint of NVIDIA's image compares the host's driver with its CUDA and finds it too old; compatibility mode is not available for this card or driver.",
                fix="Update the host's driver to {need} or newer, or take an older release of the image.",
            ),
            Text(
                title="镜像是为 {need} 或更新的驱动构建的，而宿主机驱动为 {have}",
                why="NVIDIA 镜像的入口脚本检查后发现宿主机驱动对其 CUDA 来说太旧，且该显卡或驱动不支持兼容模式。",
                fix="把宿主机驱动升级到 {need} 或更新，或使用更旧的镜像版本。",
            ),
        ),
        "compat": (
            Text(
                title="Error 804: the image brings a newer CUDA with its compat libcuda; {have:driver * |the driver }{able:(CUDA *) }on this card cannot use it",
                why="Images of nvidia/cuda carry /usr/local/cuda/compat for older host drivers. Forward compatibility works on data-center cards only; on GeForce it ends with error 804.",
                fix="Update the host's driver so that its CUDA (now {able}) is at least the image's, or use an image with an older CUDA; or take /usr/local/cuda/compat out of the library path.",
            ),
            Text(
                title="错误 804：镜像自带较新的 CUDA 及其 compat libcuda，驱动{have: * }{able:（CUDA *）}在此卡上无法使用",
                why="nvidia/cuda 镜像为较旧的宿主机驱动带有 /usr/local/cuda/compat。前向兼容只适用于数据中心卡，GeForce 上会报 804。",
                fix="更新宿主机驱动，使其 CUDA（现为 {able}）不低于镜像，或使用 CUDA 更旧的镜像；或把 /usr/local/cuda/compat 从库路径中去掉。",
            ),
        ),
        "unknown": (
            Text(
                title="The image has CUDA {need}, and the host's driver is too old for it",
                why="A container uses the host's driver; the message says that it is older than the image's CUDA runtime.",
                fix="Update the host's driver ({driver} or newer), or take an image tag with an older CUDA. nvidia-smi on the host shows the newest CUDA that its driver knows.",
            ),
            Text(
                title="镜像自带 CUDA {need}，而宿主机驱动对它来说太旧",
                why="容器使用宿主机的驱动；报错说明驱动比镜像的 CUDA 运行时旧。",
                fix="更新宿主机驱动（{driver} 或更新），或换用 CUDA 更旧的镜像标签。在宿主机上运行 nvidia-smi 可看到驱动支持的最高 CUDA。",
            ),
        ),
    },
)
