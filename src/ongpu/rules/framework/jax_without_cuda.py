"""jax is installed without its CUDA plugin."""

import re
from collections.abc import Iterator

from ongpu.facts.comparisons import Comparisons
from ongpu.facts.environment import Machine, Variables
from ongpu.facts.framework import Jax, Packages
from ongpu.facts.hardware import Gpus
from ongpu.facts.installs import Installs
from ongpu.facts.intent import on_purpose
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(
    symptoms: Symptoms | None,
    jax: Jax | None,
    packages: Packages | None,
    installs: Installs | None,
    machine: Machine | None,
    gpus: Gpus | None,
    variables: Variables | None,
    comparisons: Comparisons | None,
) -> Iterator[Finding]:
    said = symptoms.cite("jax-gpu-maybe", "jax-unknown-backend") if symptoms else ()
    cpu = bool(jax and jax.backend == "cpu")
    if not said and symptoms and jax and packages and packages.get("jax", "jaxlib") and not packages.get("torch"):
        said = symptoms.cite("chose-cpu", most=2)
    if not said and not cpu:
        return
    if symptoms and symptoms.has("jax-cuda-tried") and not symptoms.has("jax-unknown-backend"):
        return  # this jaxlib has CUDA: it tried, and the driver refused
    if comparisons and {"cpu", "gpu"} <= {timing.device for timing in comparisons.timings}:
        return  # a run on the CPU beside one on the GPU, on purpose
    if variables and (variables.get("JAX_PLATFORMS") or variables.get("JAX_PLATFORM_NAME") or "").startswith("cpu"):
        return
    plugin = (
        (jax.plugin if jax else None)
        or (packages and any(re.match(r"jax-cuda\d+-p", name) for name in packages.packages))
        or (packages and "+cuda" in (packages.version("jaxlib") or ""))
    )
    asked_cuda = (
        any("cuda" in item for i in installs.installs for item in i.asked if item.lower().startswith("jax"))
        if installs
        else False
    )
    plain = (
        tuple(
            i.ref
            for i in installs.installs
            if i.asks("jax", "jaxlib", "flax") and not any("cuda" in a for a in (*i.asked, *i.indexes))
        )
        if installs
        else ()
    )
    user = bool(
        plain
        or asked_cuda
        or cpu
        or (packages and packages.get("jax", "jaxlib"))
        or (symptoms and symptoms.has("jax-user", "jax-unknown-backend"))
    )
    if not user and symptoms and symptoms.has("torch-user"):
        return  # a PyTorch job that merely imports JAX: harmless
    if plugin or asked_cuda:
        if not (said or cpu):
            return
        if symptoms and symptoms.has("jax-unable-to-load", "jax-version-check", "jax-cudnn-older", "ld-debug-path"):
            return
    wanted = on_purpose(symptoms) or bool(symptoms and symptoms.has("cpu-wanted"))
    windows = bool(machine and machine.system == "windows" and not machine.wsl)
    extra = "cuda12" if _old(jax.version if jax else None, gpus) else "cuda13"
    yield Finding(
        variant="windows" if windows else "plugin" if plugin or asked_cuda else "",
        certainty=Certainty.POSSIBLE
        if plugin or asked_cuda
        else Certainty.CERTAIN
        if plain and (said or cpu)
        else Certainty.LIKELY,
        severity=Severity.NOTE if wanted else None,
        values={"version": (jax.version if jax else None) or "?", "extra": extra},
        fixes=() if windows else (Fix("jax-cuda"),),
        refs=(*said, *plain, *(jax.refs if jax else ()), *(packages.cite("jax", "jaxlib") if packages else ())),
    )


def _old(version: str | None, gpus: Gpus | None) -> bool:
    """Whether CUDA 13's plugin is out of question: jax before 0.7.2, or nobody said that driver and card are new enough."""
    parts = [int(x) for x in re.findall(r"\d+", version or "")[:2]]
    return parts < [0, 9] or gpus is None


RULE = Rule(
    slug="jax-without-cuda",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    settle=("pip list | grep -i jax", "python -c 'import jax; print(jax.__version__, jax.devices())'"),
    see=("https://docs.jax.dev/en/latest/installation.html",),
    en=Text(
        title="JAX{version: (*)} is installed without its CUDA plugin (jaxlib for the CPU) and runs on the CPU",
        why="pip install jax brings the CPU only. The GPU needs the plugin wheels (jax-cuda12-plugin and jax-cuda12-pjrt, or cuda13) of the same version; the driver is not at fault.",
        fix='pip install -U "jax[cuda12]" (driver 525 or newer; "jax[cuda13]" with driver 580 and a Turing or newer card), or, where the project pins a version, the same pin with the extra: "jax[cuda12]==VERSION". JAX before 0.4.30: jax[cuda12_pip] -f https://storage.googleapis.com/jax-releases/jax_cuda_releases.html.',
    ),
    zh=Text(
        title="JAX{version:（*）}没有安装 CUDA 插件（jaxlib 为 CPU 版），只能在 CPU 上运行",
        why="pip install jax 只带 CPU。使用 GPU 需要同一版本的插件 wheel（jax-cuda12-plugin 和 jax-cuda12-pjrt，或 cuda13）；与驱动无关。",
        fix='pip install -U "jax[cuda12]"（驱动 525 及以上；驱动 580 且显卡为 Turing 或更新时可用 "jax[cuda13]"）；项目固定了版本时用同一版本加附加项："jax[cuda12]==VERSION"。JAX 0.4.30 之前：jax[cuda12_pip] -f https://storage.googleapis.com/jax-releases/jax_cuda_releases.html。',
    ),
    variants={
        "plugin": (
            Text(
                title="JAX{version: (*)} does not use its CUDA plugin, though it is installed",
                why="The plugin is there but could not start: its version differs from jaxlib's, a CUDA library was not loaded (LD_LIBRARY_PATH), or no driver is visible. The line about the missing jaxlib is only the fallback's.",
                fix='pip list | grep -i jax: jax, jaxlib and the plugins must be of one version (pip install -U "jax[cuda12]"). Then unset LD_LIBRARY_PATH and run with JAX_DEBUG_LOG_MODULES=jax._src.xla_bridge to see why the plugin failed.',
            ),
            Text(
                title="JAX{version:（*）}装了 CUDA 插件，却没有用上",
                why="插件在，但没能启动：版本与 jaxlib 不同、CUDA 库没加载成功（LD_LIBRARY_PATH），或看不到驱动。“没有安装带 CUDA 的 jaxlib”只是回退时的提示。",
                fix='pip list | grep -i jax：jax、jaxlib 和插件必须同一版本（pip install -U "jax[cuda12]"）；再 unset LD_LIBRARY_PATH，并以 JAX_DEBUG_LOG_MODULES=jax._src.xla_bridge 运行，查看插件失败的原因。',
            ),
        ),
        "windows": (
            Text(
                title="JAX ({version}) has no GPU support on native Windows",
                why="There are no CUDA plugin wheels for Windows.",
                fix='Use WSL2 (experimental but working): pip install -U "jax[cuda12]" inside Ubuntu.',
            ),
            Text(
                title="JAX（{version}）在原生 Windows 上没有 GPU 支持",
                why="没有面向 Windows 的 CUDA 插件 wheel。",
                fix='使用 WSL2（实验性支持）：在 Ubuntu 中 pip install -U "jax[cuda12]"。',
            ),
        ),
    },
)
