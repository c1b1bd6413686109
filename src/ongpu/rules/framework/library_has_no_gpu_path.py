"""This library, or this operation, never runs on a GPU."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Packages, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.program import Event, Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Const, Items, Tensor, Value
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

# fmt: off
_GPU_TWIN = {
    "sklearn": "cuml.accel (RAPIDS cuML), or XGBoost / a torch model", "scikit-learn": "cuml.accel (RAPIDS cuML), or XGBoost / a torch model", "pandas": "cudf.pandas (RAPIDS cuDF)",
    "scipy": "cupyx.scipy", "numpy": "CuPy", "opencv-python": "OpenCV built with CUDA", "spacy": "spaCy 3 with a transformer pipeline (spacy.require_gpu())", "statsmodels": "a torch or RAPIDS model", "networkx": "nx-cugraph", "umap": "cuML's UMAP", "hdbscan": "cuML's HDBSCAN",
}
# fmt: on


def check(
    symptoms: Symptoms | None,
    torch: Torch | None,
    packages: Packages | None,
    trace: Traceback | None,
    gpus: Gpus | None,
    machine: Machine | None,
    program: Program | None,
) -> Iterator[Finding]:
    asked = bool(gpus or (machine and machine.colab) or (symptoms and symptoms.has("gpu-wanted", "gpu-idle-words", "idle-gpu-told", "gpu-use-asked", "low-utilization")))
    found = [finding for script in program.scripts for finding in _in_source(script, asked)] if program else []
    yield from found
    if symptoms and not found:
        yield from _in_words(symptoms, torch, packages, trace, gpus, machine)


# Estimators whose fit costs something, by module; the rest of scikit-learn is quick on any CPU.
HEAVY = ("h2o4gpu.ensemble.", "sklearn.svm.", "sklearn.ensemble.", "sklearn.neighbors.", "sklearn.cluster.", "sklearn.manifold.", "sklearn.neural_network.", "sklearn.gaussian_process.", "sklearn.model_selection.GridSearchCV", "sklearn.model_selection.RandomizedSearchCV")
# Libraries of which no part ever runs on a GPU: what they train, by the beginning of its name.
HOST_ONLY = (
    "gensim.models.", "statsmodels.", "prophet.Prophet", "pmdarima.", "hmmlearn.", "surprise.", "lifelines.", "fasttext.train", "pgmpy.", "lightfm.",
)  # fmt: skip
BOOSTED = ("xgboost.", "lightgbm.", "catboost.")
OTHERS = frozenset({"vllm", "paddle", "mxnet", "onnxruntime", "numba", "llama_cpp", "theano"})  # what the GPU may be meant for
_TWINS = {"gensim": "word vectors trained in PyTorch, or RAPIDS cuML (more workers help gensim)", "statsmodels": "a torch or RAPIDS model"}
ON_GPU = ("device", "device_type", "task_type", "tree_method", "gpu_id", "predictor")


def _in_source(script: Script, asked: bool) -> Iterator[Finding]:
    """CPU estimators, or boosted trees without a device, as all that a script trains that asks for CUDA, or whose user does."""
    deep = script.trains or any(m.sure and not m.name.startswith((*HEAVY, *BOOSTED)) for m in script.modules)
    if not (script.names_cuda or script.says("CUDA_VISIBLE_DEVICES") or asked) or deep or script.managed or script.imports & {"cuml", "tensorflow", "keras", "jax", "flax", "cudf", "cupy"}:
        return
    for made in script.calls() if not script.imports & OTHERS else ():
        library, _, what = made.name.rpartition(".")
        library = library.partition(".")[0]
        if made.name.startswith(HOST_ONLY) and (what[:1].isupper() or what.startswith("train")) and "Sentence" not in what and not made.at.frame.alone:
            yield Finding(
                certainty=Certainty.LIKELY, severity=Severity.WARNING, subject=library,
                values={"library": f"{library} ({what})", "twin": _TWINS.get(library, "another one; more processes help here")}, refs=(made.ref(),),
            )  # fmt: skip
            return
    if (cut := _tokenizer(script)) is not None and asked:
        yield Finding(
            certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="tokenizer", subject="tokenizer", values={"code": cut.words(60)}, refs=(cut.ref(),),
        )  # fmt: skip
        return
    fitted = list(script.calls(".fit", ".fit_transform", ".fit_predict"))
    for made in script.calls():
        if not made.name.startswith((*HEAVY, *BOOSTED)) or not made.name.rpartition(".")[2][:1].isupper():
            continue
        fit = next((f for f in fitted if f.receiver is made.value), None)
        if fit is None or fit.at.frame.alone or any(isinstance(a, Tensor) for a in fit.args):
            continue  # a function that others call is no program of its own
        what = made.name.rpartition(".")[2]
        if made.name.startswith(BOOSTED):
            if made.stars or any(name in (made.kw or {}) for name in ON_GPU) or made.args:
                continue
            yield Finding(certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="trees", subject=what, values={"library": what, "twin": _trees(made.name)}, refs=(made.ref(), fit.ref()))
        else:
            yield Finding(
                certainty=Certainty.LIKELY, severity=Severity.WARNING, subject=what, values={"library": f"scikit-learn's {what} (sklearn)" if made.name.startswith("sklearn") else made.name, "twin": _GPU_TWIN["sklearn"]},
                refs=(fit.ref(), *((made.ref(),) if made.line != fit.line else ())),
            )
        return
    for train in script.calls("xgboost.train", "xgboost.cv", "lightgbm.train", "lightgbm.cv"):
        if not train.at.frame.alone and _silent_on_device(train):
            yield Finding(certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="trees", subject=train.name, values={"library": train.name, "twin": _trees(train.name)}, refs=(train.ref(),))
            return


def _tokenizer(script: Script) -> Event | None:
    """The tokenizer of a script that does nothing else: no model is loaded, and torch is not there to run one."""
    loads = [e for e in script.calls() if e.name.endswith(".from_pretrained") or e.name.startswith(("transformers.", "tokenizers.", "sentencepiece."))]
    cut = [e for e in loads if "Tokenizer" in e.name or e.name.startswith(("tokenizers.", "sentencepiece."))]
    return cut[0] if cut and len(cut) == len(loads) and not script.imports & {"torch", "accelerate", "sentence_transformers"} else None


def _silent_on_device(train: Event) -> bool:
    """Whether the parameters are all known, and none of them names a device."""
    given: Value | None = train.arg(0, "params")
    if not isinstance(given, Items) or given.keys is None or given.uniform:
        return False
    names = [key.value if isinstance(key, Const) else None for key in given.keys]
    return None not in names and not any(name in ON_GPU for name in names)


def _trees(name: str) -> str:
    return "device='cuda'" if name.startswith("xgboost") else "task_type='GPU'" if name.startswith("catboost") else "device_type='gpu'"


def _in_words(
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
    cut = symptoms.cite("tokenizer-not-on-gpu", most=2)
    if cut and not (trace and trace.error) and not symptoms.has("gpu-not-seen", "no-gpu-complaint"):
        yield Finding(certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="tokenizer", subject="tokenizer", values={"code": "?"}, refs=cut)
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
        "tokenizer": (
            Text(
                title="Tokenizing text{code: (*)} never runs on a GPU",
                why="A tokenizer splits strings and looks pieces up in a vocabulary, on the CPU only; the GPU has work once a model gets the ids.",
                fix="Use the fast tokenizer (use_fast=True) with whole batches, tokenizer(list_of_texts), or several processes (datasets.map(batched=True, num_proc=8), preprocessing_num_workers=16); a machine without a GPU will do for this step.",
            ),
            Text(
                title="分词（tokenizer）从不在 GPU 上运行{code:（*）}",
                why="tokenizer 只是切分字符串并查词表，全部在 CPU 上；只有模型拿到 id 之后 GPU 才有事做。",
                fix="使用 fast tokenizer（use_fast=True）并整批处理 tokenizer(文本列表)，或用多个进程（datasets.map(batched=True, num_proc=8)、preprocessing_num_workers=16）；这一步用没有 GPU 的机器即可。",
            ),
        ),
        "trees": (
            Text(
                title="{library} is given no device: it trains on the CPU",
                why="Gradient boosting libraries use the GPU only where they are told to; what torch finds, or prints, does not matter to them.",
                fix="Give it {twin} (XGBoost 2: device='cuda' with tree_method='hist', before that tree_method='gpu_hist'; LightGBM needs a build with GPU support; CatBoost task_type='GPU').",
            ),
            Text(
                title="没有给 {library} 指定设备：它在 CPU 上训练",
                why="梯度提升库只有在明确要求时才用 GPU；torch 找到或打印了什么设备，与它们无关。",
                fix="加上 {twin}（XGBoost 2：device='cuda' 配 tree_method='hist'，更早的版本用 tree_method='gpu_hist'；LightGBM 需要带 GPU 支持的构建；CatBoost 用 task_type='GPU'）。",
            ),
        ),
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
