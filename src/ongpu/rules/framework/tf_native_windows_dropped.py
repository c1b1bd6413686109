"""TensorFlow after 2.10 has no GPU support on native Windows."""

from collections.abc import Iterator

from ongpu.facts.environment import Machine
from ongpu.facts.framework import Packages, TensorFlow
from ongpu.facts.hardware import Gpus
from ongpu.facts.installs import Installs, name_of
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge.tensorflow import gpu_on_windows
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def _asked(installs: Installs | None) -> str | None:
    """The version that an install command pins."""
    for item in installs.installs if installs else ():
        for requirement in item.asked:
            if name_of(requirement) in ("tensorflow", "tensorflow-cpu", "tensorflow-intel") and "==" in requirement:
                return requirement.partition("==")[2]
    return None


def check(
    machine: Machine | None,
    flow: TensorFlow | None,
    packages: Packages | None,
    symptoms: Symptoms | None,
    gpus: Gpus | None,
    installs: Installs | None,
) -> Iterator[Finding]:
    windows = bool(machine and machine.system == "windows" and not machine.wsl)
    note = symptoms.cite("tf-2-11-windows-note") if symptoms else ()
    intel = packages.get("tensorflow-intel") if packages else None
    version = (flow.version if flow else None) or (intel.version if intel else None)
    version = version or _asked(installs)
    refused = (
        next(
            (i for i in installs.installs if i.refused and name_of(i.refused) in ("tensorflow-gpu", "tensorflow")), None
        )
        if installs
        else None
    )
    if (
        windows
        and refused
        and refused.refused
        and gpu_on_windows(refused.refused.partition("=")[2].strip("=><~!")) is False
        and name_of(refused.refused) == "tensorflow-gpu"
    ):
        yield Finding(
            values={"version": refused.refused.partition("=")[2].strip("=")},
            fixes=(Fix("tf-in-wsl"),),
            refs=(refused.ref, *(machine.about("system") if machine else ())),
        )
        return
    if not note and not (version and (windows or intel) and gpu_on_windows(version) is False):
        return
    if packages and packages.get("tensorflow-directml-plugin"):
        return
    missed = bool(flow and flow.gpus == 0) or bool(
        symptoms and symptoms.has("chose-cpu", "no-gpu-complaint", "cuda-requested-unavailable")
    )
    yield Finding(
        certainty=Certainty.CERTAIN if missed or note else Certainty.LIKELY,
        values={"version": version or "?"},
        fixes=(Fix("tf-in-wsl"),),
        refs=(
            *note,
            *(flow.refs if flow else ()),
            *((intel.ref,) if intel and intel.ref else ()),
            *(machine.about("system") if machine else ()),
            *(symptoms.cite("chose-cpu", most=2) if symptoms else ()),
        ),
    )


RULE = Rule(
    slug="tf-native-windows-dropped",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "cuda-lib-missing",
        "cudnn-missing",
        "cudnn-version-mismatch",
        "cpu-only-build",
        "gpu-extra-missing",
        "cuda-unavailable",
        "wheel-unavailable-for-python",
    ),
    settle=('python -c "import tensorflow as tf; print(tf.__version__, tf.test.is_built_with_cuda())"',),
    see=(
        "https://www.tensorflow.org/install/pip#windows-native",
        "https://github.com/tensorflow/tensorflow/issues/59918",
    ),
    en=Text(
        title="TensorFlow {version} cannot use a GPU on native Windows: 2.10 was the last release that could",
        why="From 2.11 on the Windows wheels (tensorflow-intel) are CPU only; no CUDA, cuDNN or driver version on native Windows changes that.",
        fix="Run TensorFlow in WSL2 (pip install 'tensorflow[and-cuda]' inside Ubuntu), or stay on native Windows with pip install \"tensorflow<2.11\" (2.10, Python 3.7-3.10), CUDA 11.2 and cuDNN 8.1.",
    ),
    zh=Text(
        title="TensorFlow {version} 在原生 Windows 上用不了 GPU：2.10 是最后一个支持的版本",
        why="从 2.11 起，Windows wheel（tensorflow-intel）只有 CPU 版，无论换哪个 CUDA、cuDNN 或驱动都没用。",
        fix="在 WSL2 里运行 TensorFlow（Ubuntu 中 pip install 'tensorflow[and-cuda]'）；或留在原生 Windows，pip install \"tensorflow<2.11\"（2.10，Python 3.7-3.10），配 CUDA 11.2 和 cuDNN 8.1。",
    ),
)
