"""The forward-compatibility libcuda (cuda-compat) is used where the card or the driver does not allow it."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver
from ongpu.facts.environment import Variables
from ongpu.facts.hardware import Gpus
from ongpu.facts.libraries import Loader
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(
    symptoms: Symptoms | None,
    variables: Variables | None,
    loader: Loader | None,
    driver: Driver | None,
    gpus: Gpus | None,
    container: Container | None,
) -> Iterator[Finding]:
    path = variables.get("LD_LIBRARY_PATH") if variables else None
    compat = next((f for f in (path or "").split(":") if "compat" in f), None)
    loaded = next(
        (
            item
            for item in (loader.loaded if loader else ())
            if item.name.startswith("libcuda.so") and "compat" in item.path
        ),
        None,
    )
    folder = (
        compat or (loaded.path if loaded else None) or (symptoms.value("path", "compat-folder") if symptoms else None)
    )
    told = bool(symptoms and symptoms.has("compat-804"))
    mismatch = bool(symptoms and symptoms.has("compat-803"))
    if not told and not mismatch and not (loaded and driver):
        return
    if mismatch and not told and symptoms and symptoms.has("driver-library-mismatch", "api-mismatch"):
        return  # the driver itself says that its parts differ
    stale = mismatch and driver and driver.module and driver.version and driver.module != driver.version
    names = gpus.all_names() if gpus else ()
    yield Finding(
        variant="804" if told else "803",
        certainty=Certainty.CERTAIN
        if told or (mismatch and folder)
        else Certainty.POSSIBLE
        if stale
        else Certainty.LIKELY,
        values={
            "folder": folder or "/usr/local/cuda/compat",
            "driver": (driver.version if driver else None) or "?",
            "cards": names or "?",
        },
        fixes=(Fix("drop-compat"),),
        refs=(
            *(symptoms.cite("compat-804", "compat-803", "compat-folder") if symptoms else ()),
            *(variables.cite("LD_LIBRARY_PATH") if variables and compat else ()),
            *((loaded.ref,) if loaded and loaded.ref else ()),
            *(driver.about("version") if driver and driver.version else ()),
            *(gpus.cite() if gpus and names else ()),
        ),
    )


RULE = Rule(
    slug="compat-lib-conflict",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable", "driver-too-old-for-cuda", "container-image-cuda-too-new"),
    settle=(
        "echo $LD_LIBRARY_PATH",
        "ldconfig -p | grep libcuda.so",
        "nvidia-smi --query-gpu=name,driver_version --format=csv",
    ),
    see=("https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html",),
    en=Text(
        title="The forward-compatibility driver library is in use on a system that does not support it ({folder})",
        why="cuda-compat replaces libcuda.so.1 by a newer one. It works only on data-centre cards and with certain driver branches.",
        fix="Remove the compat folder from LD_LIBRARY_PATH and ld.so.conf, or uninstall cuda-compat, so that the driver's own libcuda is loaded; use a CUDA that the driver supports or update the driver.",
    ),
    zh=Text(
        title="在不支持的系统上使用了前向兼容驱动库（{folder}）",
        why="cuda-compat 用较新的 libcuda.so.1 替换驱动自带的库，只对数据中心卡和特定驱动分支有效。",
        fix="把 compat 目录从 LD_LIBRARY_PATH 和 ld.so.conf 中去掉，或卸载 cuda-compat，让驱动自己的 libcuda 被加载；改用驱动支持的 CUDA，或升级驱动。",
    ),
    variants={
        "804": (
            Text(
                title="Forward compatibility (cuda-compat) does not work on this card (error 804{cards:; cards: *}{driver:; driver *})",
                why="The image or environment puts a newer libcuda from {folder} in front of the driver's. NVIDIA allows that on data-centre cards only; on GeForce and most workstation cards it fails with 804. It also appears when user space and kernel module of the driver differ.",
                fix="Take {folder} off LD_LIBRARY_PATH and /etc/ld.so.conf.d, or remove the cuda-compat package from the image; then update the host's driver to one that runs the CUDA version of the image, or take an older image.",
            ),
            Text(
                title="这张卡不支持前向兼容（cuda-compat）（错误 804{cards:；显卡：*}{driver:；驱动 *}）",
                why="镜像或环境让 {folder} 里较新的 libcuda 排在驱动之前。NVIDIA 只允许数据中心卡这样用，GeForce 和多数工作站卡会报 804。驱动用户态与内核模块版本不一致时也会出现。",
                fix="把 {folder} 从 LD_LIBRARY_PATH 和 /etc/ld.so.conf.d 去掉，或在镜像里删除 cuda-compat 包；然后把宿主机驱动升级到能运行镜像 CUDA 的版本，或换旧一些的镜像。",
            ),
        ),
        "803": (
            Text(
                title="The libcuda that is loaded does not fit the kernel driver (error 803{driver:; driver *})",
                why="System has unsupported display driver / cuda driver combination: user-space libcuda and kernel module are of versions that do not work together. In containers it comes from a cuda-compat library ({folder}) that is older or newer than the host's driver; on a host, from a driver update without reboot.",
                fix="Remove cuda-compat ({folder}) from LD_LIBRARY_PATH, ld.so.conf.d or the image, so that the host's libcuda is used; on a host without compat library: reboot after the driver update.",
            ),
            Text(
                title="加载的 libcuda 与内核驱动不匹配（错误 803{driver:；驱动 *}）",
                why="提示“unsupported display driver / cuda driver combination”：用户态 libcuda 与内核模块的版本不能配合。容器里是 cuda-compat 的库（{folder}）比宿主机驱动旧或新；宿主机上则是更新驱动后没有重启。",
                fix="从 LD_LIBRARY_PATH、ld.so.conf.d 或镜像中去掉 cuda-compat（{folder}），改用宿主机的 libcuda；宿主机上没有 compat 库时，更新驱动后重启。",
            ),
        ),
    },
)
