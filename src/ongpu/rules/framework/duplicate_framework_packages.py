"""Two packages of the same framework are installed together, and one hides the GPU build of the other."""

import re
from collections.abc import Iterator

from ongpu.facts.driver import Driver
from ongpu.facts.framework import OnnxRuntime, Packages, TensorFlow
from ongpu.facts.installs import Installs
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind
from ongpu.knowledge._versions import numbers
from ongpu.knowledge.cuda import oldest_driver_for
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

# (names that exclude one another, what to keep)
# fmt: off
_GROUPS = (
    (("onnxruntime-gpu", "onnxruntime", "onnxruntime-directml", "onnxruntime-openvino"), "onnxruntime-gpu", "onnxruntime"),
    (("faiss-gpu", "faiss-cpu", "faiss"), "faiss-gpu", "faiss"),
    (("paddlepaddle-gpu", "paddlepaddle"), "paddlepaddle-gpu", "paddle"),
    (("tensorflow-gpu", "tensorflow-cpu"), "tensorflow", "tensorflow"),
)
# fmt: on


def check(
    packages: Packages | None,
    symptoms: Symptoms | None,
    onnx: OnnxRuntime | None,
    flow: TensorFlow | None,
    installs: Installs | None,
    driver: Driver | None,
) -> Iterator[Finding]:
    if symptoms and symptoms.has("cupy-multiple"):
        told = symptoms.value("names", "cupy-names") or "cupy-cuda*"
        each = told.split(", ")
        yield Finding(
            values={
                "names": told,
                "keep": each[-1] if len(each) > 1 else "cupy-cuda12x",
                "both": " ".join(each) if len(each) > 1 else "cupy",
                "versions": told,
                "module": "cupy",
            },
            refs=(*symptoms.cite("cupy-multiple"), *symptoms.cite("cupy-names", most=2)),
        )
        return
    if found := _installed_together(installs, symptoms, onnx):
        yield found
        return
    if not packages:
        yield from _in_words(symptoms, blind(symptoms, None, flow, None, onnx))
        return
    missed = blind(symptoms, None, flow, None, onnx)
    pairs = list(_pairs(packages, missed, symptoms, driver))
    yield from sorted(pairs, key=lambda one: -one.certainty)  # the one that was seen at work first
    if pairs:
        return
    if found := _overridden(packages, symptoms, onnx, flow):
        yield found
        return
    yield from _in_words(symptoms, missed)
    yield from _copies(packages)


def _pairs(packages: Packages, missed: tuple[Ref, ...], symptoms: Symptoms | None, driver: Driver | None) -> Iterator[Finding]:
    """Each framework of which two packages are installed."""
    for group, keep, module in _GROUPS:
        names = [name for name in group if packages.get(name)]
        if len(names) < 2 or not any(name == group[0] for name in names):
            continue
        if keep == "tensorflow":
            continue
        yield _finding(packages, names, keep, module, _of(missed, module), symptoms)
    pip = [packages.packages[name] for name in ("tensorflow", "tensorflow-cpu") if packages.get(name)]
    if len(pip) == 2 and not any(p.build or p.channel for p in pip):  # of conda one is the other's umbrella
        yield _finding(packages, [p.name for p in pip], "tensorflow", "tensorflow", _of(missed, "tensorflow"), symptoms)
    if packages.get("tensorflow-gpu") and (plain := packages.get("tensorflow")):
        gpu = packages.packages["tensorflow-gpu"]
        conda = bool(plain.build or gpu.build)
        fine = conda and (
            "gpu" in plain.build
            or (plain.channel == gpu.channel and not missed)
            or (
                plain.channel == gpu.channel
                and "cpu" not in plain.build
                and "eigen" not in plain.build
                and "mkl" not in plain.build
            )
        )
        if not fine:
            yield _finding(
                packages,
                ["tensorflow", "tensorflow-gpu"],
                "tensorflow" if not conda else "tensorflow-gpu",
                "tensorflow",
                _of(missed, "tensorflow"),
                symptoms,
                "channels" if conda else "",
            )
    for pattern, module in (
        (r"cupy(?:-cuda\d+x?|-rocm.*)?$", "cupy"),
        (r"mxnet(?:-cu\d+\w*|-mkl)?$", "mxnet"),
        (r"dgl(?:-cu\d+)?$", "dgl"),
        (r"jax-cuda\d+-plugin$", "jax"),
    ):
        names = [name for name in packages.packages if re.match(pattern, name)]
        if len(names) > 1:
            gpus = sorted((n for n in names if re.search(r"cu(?:da)?\d", n)), key=_major)
            fitting = [n for n in gpus if not _too_new(_major(n), driver)]
            yield _finding(packages, names, (fitting or gpus[:1] or names)[-1 if fitting else 0], module, _of(missed, module), symptoms)


def _of(missed: tuple[Ref, ...], module: str) -> tuple[Ref, ...]:
    """The lines that may speak of this framework: none of another one."""
    others = {"torch", "tensorflow", "jax", "paddle", "onnx", "cupy", "mxnet", "faiss"} - {module, module.removesuffix("runtime")}
    return tuple(ref for ref in missed if module in (quote := ref.quote.lower()) or not any(name in quote for name in others))


def _copies(packages: Packages) -> Iterator[Finding]:
    """A framework of which two copies lie on the same path."""
    twice = [
        p
        for p in packages.duplicates
        if p.name
        in ("torch", "tensorflow", "onnxruntime", "onnxruntime-gpu", "jaxlib", "jax", "triton", "torchvision", "numpy")
    ]
    for second in twice:
        first = packages.get(second.name)
        if first and first.location and second.location and first.location != second.location:
            yield Finding(
                variant="copies",
                certainty=Certainty.LIKELY,
                severity=Severity.WARNING,
                values={
                    "name": first.name,
                    "one": f"{first.version} ({first.location})",
                    "two": f"{second.version} ({second.location})",
                },
                refs=tuple(p.ref for p in (first, second) if p.ref),
            )


def _major(name: str) -> int:
    """The CUDA major in a package's name: 12 of "cupy-cuda12x", 11 of "mxnet-cu112"; 0: none."""
    found = re.search(r"cu(?:da)?(\d{1,2})", name)
    return int(found[1]) if found else 0


def _too_new(major: int, driver: Driver | None) -> bool:
    """Whether the driver is older than a CUDA major needs."""
    need = oldest_driver_for(str(major)) if major else None
    return bool(driver and driver.version and need and numbers(driver.version) < numbers(need))


def _overridden(
    packages: Packages, symptoms: Symptoms | None, onnx: OnnxRuntime | None, flow: TensorFlow | None
) -> Finding | None:
    """The GPU package is listed, and yet the module answers as the CPU package does: another one was installed over it."""
    azure = bool(onnx and onnx.providers and "AzureExecutionProvider" in onnx.providers and not onnx.offers_cuda)
    for gpu, cpu, says in (
        ("faiss-gpu", "faiss-cpu", ("faiss-no-gpu",)),
        ("onnxruntime-gpu", "onnxruntime", ("ort-provider-missing",)),
        ("paddlepaddle-gpu", "paddlepaddle", ("paddle-no-cuda",)),
        ("tensorflow-gpu", "tensorflow", ("tf-not-built-with-cuda",)),
    ):
        if not packages.get(gpu) or packages.get(cpu):
            continue
        lines = symptoms.cite(*says, most=2) if symptoms else ()
        if gpu == "onnxruntime-gpu" and onnx and azure:
            lines = (*lines, *onnx.about("providers"))
        if gpu == "tensorflow-gpu" and flow and flow.cuda == "" and flow.gpus == 0:
            lines = (*lines, *flow.refs[:2])
        if lines:
            names = [gpu, cpu]
            return Finding(
                variant="overridden",
                certainty=Certainty.LIKELY,
                values={"gpu": gpu, "cpu": cpu, "keep": gpu, "both": " ".join(names), "module": cpu.split("-")[0]},
                fixes=(Fix("keep-one-package"),),
                refs=(*packages.cite(gpu), *lines),
            )
    return None


def _installed_together(installs: Installs | None, symptoms: Symptoms | None, onnx: OnnxRuntime | None) -> Finding | None:
    """One command, or two, that install both, and a module without its GPU part."""
    cpu_only = bool(onnx and onnx.providers is not None and not onnx.offers_cuda)
    for gpu, cpu, missed in (
        ("onnxruntime-gpu", "onnxruntime", cpu_only or bool(symptoms and symptoms.has("ort-provider-missing"))),
        ("faiss-gpu", "faiss-cpu", bool(symptoms and symptoms.has("faiss-no-gpu"))),
        ("paddlepaddle-gpu", "paddlepaddle", bool(symptoms and symptoms.has("paddle-no-cuda"))),
    ):
        runs = [item for item in (installs.installs if installs else ()) if item.asks(gpu) or item.asks(cpu)]
        if missed and any(item.asks(gpu) for item in runs) and any(item.asks(cpu) for item in runs):
            names = [gpu, cpu]
            lines = (
                *(item.ref for item in runs[:2]),
                *(onnx.about("providers") if onnx and cpu_only else ()),
                *(symptoms.cite("ort-provider-missing", "faiss-no-gpu", "paddle-no-cuda", most=1) if symptoms else ()),
            )
            return Finding(
                certainty=Certainty.LIKELY,
                values={"names": names, "versions": names, "keep": gpu, "both": " ".join(names), "module": cpu.split("-")[0]},
                fixes=(Fix("keep-one-package"),),
                refs=lines,
            )
    return None


def _in_words(symptoms: Symptoms | None, missed: tuple[Ref, ...]) -> Iterator[Finding]:
    """Both names in a sentence that says that both were there."""
    if not symptoms or not symptoms.has("both-packages-told") or not (symptoms.has("both-words") or missed):
        return
    if not missed and not symptoms.has("gpu-idle-words", "chose-cpu", "ort-provider-missing", "faiss-no-gpu"):
        return
    hit = symptoms.seen("both-packages-told")[0]
    names = sorted(value for value in hit.groups.values())
    keep = next((name for name in names if name.endswith("-gpu")), names[-1])
    yield Finding(
        certainty=Certainty.LIKELY,
        values={"names": names, "versions": names, "keep": keep, "both": " ".join(names), "module": names[0].split("-")[0]},
        fixes=(Fix("keep-one-package"),),
        refs=(*symptoms.cite("both-packages-told", most=2), *missed),
    )


def _finding(
    packages: Packages,
    names: list[str],
    keep: str,
    module: str,
    missed: tuple[Ref, ...],
    symptoms: Symptoms | None,
    variant: str = "",
) -> Finding:
    told = [
        f"{n} {packages.packages[n].version}".strip()
        + (f" ({packages.packages[n].channel})" if packages.packages[n].channel else "")
        for n in names
    ]
    values: dict[str, object] = {"names": names, "versions": told, "keep": keep, "both": " ".join(names), "module": module}
    missed = tuple(ref for ref in missed if "torch" not in ref.quote.lower())  # PyTorch is none of these: its errors are its own
    return Finding(
        subject=module,
        variant=variant,
        certainty=Certainty.CERTAIN if missed else Certainty.LIKELY,
        severity=None if missed else Severity.WARNING,
        values=values | _again(packages, names, keep),
        fixes=(Fix("keep-one-paddle" if module == "paddle" else "keep-one-package"),),
        refs=(
            *packages.cite(*names),
            *missed,
            *(symptoms.cite("cupy-multiple", "ort-provider-missing") if symptoms else ()),
        ),
    )


def _again(packages: Packages, names: list[str], keep: str) -> dict[str, str]:
    """pinned: what is kept, of the version that is there; back: all that is removed, where PyPI holds it, so that pip can bring it
    back: not what came from a file, an address, another index (a local version) or conda."""
    here = [packages.packages[name] for name in names]
    kept = packages.get(keep)
    if not all(p.version and not (p.local or p.build or p.channel or p.direct) for p in here):
        return {}
    if keep == "paddlepaddle-gpu" and kept and kept.version > "3":
        return {"public": kept.public}  # PyPI ends with 2.6.2
    found = {"pinned": f"{kept.name}=={kept.version}"} if kept else {}
    seen = all(p.location for p in here)  # looked at in the environment itself: a pasted list does not say where a wheel came from
    return found | ({"back": " ".join(f"{p.name}=={p.version}" for p in here)} if seen else {})


RULE = Rule(
    slug="duplicate-framework-packages",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=("gpu-extra-missing", "cpu-only-build", "cuda-lib-missing"),
    settle=("pip list | grep -iE 'onnxruntime|tensorflow|faiss|cupy|paddle'",),
    see=("https://onnxruntime.ai/docs/install/", "https://docs.cupy.dev/en/stable/install.html"),
    en=Text(
        title="Two packages of the same framework are installed side by side: {versions}",
        why="{names} unpack into the same folder ({module}), so that the one installed last, often the CPU one pulled by a dependency, overwrites the files of the GPU build. pip does not see the conflict.",
        fix="Uninstall both (pip uninstall {both}), then install only the GPU one: pip install {keep}. Removing just one leaves the folder broken. What pip got from its index it can bring back, so that nothing is lost; a wheel of your own, or one from another index, must be at hand before. Where a dependency keeps pulling the CPU package back, install it with --no-deps or exclude it.",
    ),
    zh=Text(
        title="同一框架的两个包同时存在：{versions}",
        why="{names} 解压到同一个目录（{module}），后装的那个（往往是依赖带来的 CPU 版）覆盖了 GPU 版的文件，而 pip 察觉不到冲突。",
        fix="两个都卸载（pip uninstall {both}），再只装 GPU 版：pip install {keep}。只删一个会留下残缺的目录。pip 从索引装的可以再装回来，不会丢失；自己编译的或来自其他索引的 wheel，卸载前要先备好。若某个依赖总把 CPU 版拉回来，用 --no-deps 安装或排除它。",
    ),
    variants={
        "overridden": (
            Text(
                title="{gpu} is listed as installed, and yet the module answers like the CPU package: {cpu} was installed over it",
                why="Both packages unpack into the same folder ({module}). The one installed last, usually pulled by a dependency, has replaced the files, while pip goes on listing {gpu}.",
                fix="Uninstall both (pip uninstall {both}) and install only the GPU one: pip install --force-reinstall {keep}. pip list | grep -i {module} shows whether {cpu} is there.",
            ),
            Text(
                title="{gpu} 显示已安装，模块的表现却是 CPU 版：{cpu} 覆盖了它",
                why="两个包解压到同一个目录（{module}）。后装的那个（多由依赖带来）替换了文件，而 pip 仍然列出 {gpu}。",
                fix="两个都卸载（pip uninstall {both}），再只装 GPU 版：pip install --force-reinstall {keep}。pip list | grep -i {module} 可查看 {cpu} 是否存在。",
            ),
        ),
        "channels": (
            Text(
                title="conda mixes two builds of the framework: {versions}",
                why="{names} come from different channels (conda-forge's CPU build beside the GPU package of defaults): do not mix them, the CPU build is the one that gets imported.",
                fix="Make a new environment from one channel (conda create -n gpu {keep}, with --override-channels and either -c defaults or -c conda-forge), so that tensorflow and tensorflow-gpu are of the same build.",
            ),
            Text(
                title="conda 环境混入了框架的两种构建：{versions}",
                why="{names} 来自不同通道（conda-forge 的 CPU 构建与 defaults 的 GPU 包）：不要混用，实际被导入的是 CPU 构建。",
                fix="用单一通道新建环境（conda create -n gpu {keep}，加 --override-channels，只用 -c defaults 或 -c conda-forge），使 tensorflow 与 tensorflow-gpu 出自同一构建。",
            ),
        ),
        "copies": (
            Text(
                title="{name} is installed twice: {one} and {two}",
                why="Two copies lie on the path of the same interpreter; which one is imported depends on the order of sys.path, and mixed files of both fail.",
                fix="pip uninstall {name} until none is left, then install the GPU build once (check with pip list --path for the user and the environment folder).",
            ),
            Text(
                title="{name} 装了两份：{one} 与 {two}",
                why="同一个解释器的路径上有两份，导入哪一份取决于 sys.path 的顺序，混用两者的文件会出错。",
                fix="反复 pip uninstall {name} 直到一份不剩，再只装一次 GPU 版（用 pip list --path 分别查看用户目录和环境目录）。",
            ),
        ),
    },
)
