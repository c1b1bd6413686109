"""This library, or this operation, never runs on a GPU."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Packages, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

# fmt: off
_GPU_TWIN = {
    "sklearn": "cuml.accel (RAPIDS cuML), or XGBoost / a torch model", "scikit-learn": "cuml.accel (RAPIDS cuML), or XGBoost / a torch model", "pandas": "cudf.pandas (RAPIDS cuDF)",
    "scipy": "cupyx.scipy", "numpy": "CuPy", "opencv-python": "OpenCV built with CUDA", "spacy": "spaCy 3 with a transformer pipeline (spacy.require_gpu())", "statsmodels": "a torch or RAPIDS model", "networkx": "nx-cugraph", "umap": "cuML's UMAP", "hdbscan": "cuML's HDBSCAN",
}
# fmt: on


def check(
    symptoms: Symptoms,
    torch: Torch | None,
    packages: Packages | None,
    trace: Traceback | None,
    gpus: Gpus | None,
    machine: Machine | None,
) -> Iterator[Finding]:
    if symptoms.has("op-no-cuda", "no-gpu-implementation"):
        op = symptoms.value("op", "op-no-cuda")
        if op and (
            op.startswith(("torchvision::", "aten::empty"))
            or (torch and torch.cuda == "")
            or symptoms.has("torch-not-compiled-with-cuda")
        ):
            return
        if op or symptoms.has("no-gpu-implementation"):
            yield Finding(
                variant="op",
                certainty=Certainty.LIKELY if op or symptoms.has("no-gpu-implementation") else Certainty.POSSIBLE,
                values={"what": op or "this operation"},
                refs=symptoms.cite("op-no-cuda", "no-gpu-implementation"),
            )
        return
    estimator = symptoms.value("class", "sklearn-estimator")
    if (
        symptoms.has("sklearn-estimator")
        and (not symptoms.has("torch-user") or symptoms.has("gpu-idle-words", "idle-gpu-told"))
        and not (torch and torch.version)
        and not (trace and trace.error)
        and (gpus or (machine and machine.colab) or symptoms.has("gpu-wanted"))
    ):
        yield Finding(
            certainty=Certainty.LIKELY,
            severity=Severity.WARNING,
            values={"library": f"scikit-learn (sklearn) {estimator or ''}".strip(), "twin": _GPU_TWIN["sklearn"]},
            refs=(
                *symptoms.cite("sklearn-estimator", most=3),
                *symptoms.cite("idle-gpu-told", "gpu-use-asked", "gpu-wanted", most=2),
            ),
        )
        return
    library = symptoms.value("lib", "cpu-library")
    if (
        not library
        or library == "numpy"
        or (torch and torch.version)
        or trace
        or symptoms.has("torch-user", "torch-not-compiled-with-cuda")
    ):
        return
    weak = library.lower().startswith("spacy")
    if weak and not symptoms.has("gpu-words-weak", "gpu-idle-words"):
        return
    if not weak and not symptoms.has("idle-gpu-told", "chose-cpu", "gpu-use-asked", "gpu-idle-words", "gpu-question"):
        return
    yield Finding(
        certainty=Certainty.LIKELY,
        severity=Severity.WARNING,
        values={
            "library": library,
            "twin": _GPU_TWIN.get(library, _GPU_TWIN.get(library.lower(), "a library that has GPU code")),
        },
        refs=symptoms.cite("cpu-library", "idle-gpu-told", "gpu-use-asked", "chose-cpu", "gpu-idle-words", "gpu-words-weak", most=2),
    )


RULE = Rule(
    slug="library-has-no-gpu-path",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    see=(
        "https://scikit-learn.org/stable/faq.html#will-you-add-gpu-support",
        "https://docs.rapids.ai/api/cuml/stable/",
    ),
    en=Text(
        title="{library} runs on the CPU only: it has no GPU code",
        why="Neither a driver nor CUDA makes {library} use a GPU; its algorithms are written for the CPU.",
        fix="Use a library that has GPU code: {twin}; or keep {library} and use more CPU cores (n_jobs=-1).",
    ),
    zh=Text(
        title="{library} 只在 CPU 上运行：它没有 GPU 代码",
        why="装驱动或 CUDA 都不会让 {library} 用上 GPU，它的算法就是为 CPU 写的。",
        fix="换用带 GPU 代码的库：{twin}；或继续用 {library}，多用 CPU 核（n_jobs=-1）。",
    ),
    variants={
        "op": (
            Text(
                title="{what} has no GPU implementation",
                why="The framework says that this operation exists for the CPU only. The installation is in order.",
                fix="Do this step on the CPU (x.cpu() ... .to('cuda')), use an equivalent operation that has a CUDA kernel, or a newer release that has added it.",
            ),
            Text(
                title="{what} 没有 GPU 实现",
                why="框架提示该操作只有 CPU 版本，安装本身没有问题。",
                fix="这一步放到 CPU 上做（x.cpu() …… .to('cuda')），换用有 CUDA kernel 的等价操作，或升级到已支持它的版本。",
            ),
        ),
    },
)
