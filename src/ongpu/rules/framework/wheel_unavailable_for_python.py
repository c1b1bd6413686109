"""No wheel of the release asked for exists for this Python."""

import re
from collections.abc import Iterator

from ongpu.facts.environment import Machine
from ongpu.facts.framework import Python
from ongpu.facts.installs import Install, Installs, name_of
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge import tensorflow, torch
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

# fmt: off
_FRAMEWORKS = (
    "torch", "torchvision", "torchaudio", "tensorflow", "tensorflow-gpu", "jaxlib", "jax", "onnxruntime-gpu", "paddlepaddle-gpu", "xformers", "mxnet", "cupy-cuda12x", "cupy-cuda11x",
    "faiss-gpu", "triton", "vllm", "tensorflow-cpu", "pytorch", "torch-scatter", "mmcv", "dgl", "tensorrt", "cudf-cu12", "bitsandbytes", "paddlepaddle", "tensorflow-io", "numba", "flash-attn", "onnxruntime",
)
# fmt: on


def check(
    installs: Installs | None, python: Python | None, symptoms: Symptoms | None, machine: Machine | None
) -> Iterator[Finding]:
    refused = [i for i in installs.installs if i.refused and name_of(i.refused) in _FRAMEWORKS] if installs else []
    wheel = symptoms.value("wheel", "not-supported-wheel") if symptoms else None
    version = python.version if python else None
    if wheel and re.search(
        r"torch|tensorflow|onnxruntime|jax|xformers|flash_attn|triton|cupy|paddle|mmcv|scatter|spconv", wheel
    ):
        tag = re.search(r"-cp(\d)(\d+)-", wheel)
        other = re.search(r"linux|win_amd64|macosx", wheel)
        wanted = f"{tag[1]}.{tag[2]}" if tag else None
        if wanted and version and ".".join(version.split(".")[:2]) == wanted and not (other and machine):
            return
        yield Finding(
            variant="file",
            certainty=Certainty.LIKELY,
            values={"wheel": wheel, "python": wanted or "?", "have": version or "?"},
            fixes=(Fix("use-python"),) if wanted else (),
            refs=(
                *(symptoms.cite("not-supported-wheel") if symptoms else ()),
                *(python.about("version") if python else ()),
            ),
        )
        return
    named = symptoms.value("name", "python-refused") if symptoms else None
    if symptoms and named in _FRAMEWORKS:
        yield Finding(
            variant="range",
            certainty=Certainty.CERTAIN,
            values={"name": named, "have": symptoms.value("have", "python-refused") or "?", "need": symptoms.value("need", "python-refused") or "?"},
            refs=symptoms.cite("python-refused"),
        )
        return
    for item in refused:
        finding = _judge(item, version, python, machine)
        if finding:
            yield finding
            return
    asked = (
        [i for i in installs.installs if i.asks("torch", "tensorflow", "tensorflow-gpu") and not i.refused]
        if installs
        else []
    )
    for item in asked:
        for requirement in item.asked:
            name, pinned = name_of(requirement), re.search(r"==?v?([\d.]+)", requirement)
            ok = _ok(name, pinned[1], version) if pinned and version else None
            if ok is False and symptoms and symptoms.has("no-wheel-words"):
                yield Finding(
                    certainty=Certainty.LIKELY,
                    values=_values(requirement, name, pinned[1] if pinned else "", version, None),
                    refs=(item.ref, *symptoms.cite("no-wheel-words"), *(python.about("version") if python else ())),
                )
                return


def _judge(item: Install, version: str | None, python: Python | None, machine: Machine | None) -> Finding | None:
    name = name_of(item.refused or "")
    pinned = re.search(r"[=<>~!]=?=?v?([\d.]+\d)", item.refused or "")
    ok = _ok(
        name,
        pinned[1] if pinned else None,
        version,
        "windows_x86_64" if machine and machine.system == "windows" else "linux_x86_64",
    )
    none = item.versions == ()
    offered = item.versions
    same = [v for v in offered or () if pinned and v.partition("+")[0] == pinned[1]]
    if same or (ok is True and offered is None):
        return None
    if ok is None and version is None and not none and not offered:
        return None
    values = _values(item.refused or "?", name, pinned[1] if pinned else "", version, offered)
    parts = [int(x) for x in re.findall(r"\d+", version or "")[:2]]
    new = parts >= [3, 13]
    certain = (
        Certainty.CERTAIN
        if ok is False
        else Certainty.LIKELY
        if (none and new) or (offered and pinned and version) or none
        else Certainty.POSSIBLE
    )
    bits = bool(machine and machine.architecture in ("i686", "x86"))
    return Finding(
        variant="" if version else "unknown",
        certainty=Certainty.CERTAIN if bits else certain,
        values=values,
        fixes=(Fix("use-python", {"python": values["use"]}),) if values["use"] != "?" else (),
        refs=(item.ref, *(python.about("version") if python and version else ())),
    )


def _ok(name: str, asked: str | None, version: str | None, platform: str = "linux_x86_64") -> bool | None:
    if not version:
        return None
    if name in ("torch", "pytorch"):
        return torch.python_ok(asked, version, platform) if asked else None
    if name.startswith("tensorflow") and name in ("tensorflow", "tensorflow-gpu", "tensorflow-cpu"):
        return (
            tensorflow.python_ok(asked, version)
            if asked
            else (tensorflow.newest_for_python(".".join(version.split(".")[:2])) is not None)
        )
    return None


def _values(
    requirement: str, name: str, asked: str, version: str | None, offered: tuple[str, ...] | None
) -> dict[str, str]:
    found = torch.release(asked) if name == "torch" and asked else None
    flow = tensorflow.release(asked) if name.startswith("tensorflow") and asked else None
    low, high = (
        (found.python_min, found.python_max) if found else (flow.python_min, flow.python_max) if flow else ("?", "?")
    )
    use = high if high != "?" else "3.12" if [int(x) for x in re.findall(r"\d+", version or "")[:2]] >= [3, 13] else "?"
    return {
        "what": requirement,
        "have": version or "?",
        "low": low,
        "high": high,
        "use": use,
        "offered": ", ".join((offered or ())[-6:]) or "none",
    }


RULE = Rule(
    slug="wheel-unavailable-for-python",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    settle=("python --version; python -c 'import struct; print(struct.calcsize(\"P\") * 8)'",),
    see=(
        "https://pytorch.org/get-started/locally/",
        "https://github.com/pytorch/pytorch/blob/main/RELEASE.md#release-compatibility-matrix",
        "https://www.tensorflow.org/install/source#tested_build_configurations",
    ),
    en=Text(
        title="There is no wheel of {what} for Python {have}: pip finds only {offered}",
        why="pip lists only versions whose wheels fit the interpreter. This release was built for {low:Python * to }{high:*|certain Pythons}; a newer (or 32-bit, or older) Python sees none of its wheels, and the message says only that no version was found.",
        fix="Make an environment with {use:Python *|a Python that it supports} (uv venv --python {use:*|X.Y}, conda create python={use:*|X.Y}, py -{use:*|X.Y} -m venv) and install there, or take a release that has wheels for Python {have} ({offered}).",
    ),
    zh=Text(
        title="{what} 没有适用于 Python {have} 的 wheel：pip 只找到 {offered}",
        why="pip 只列出与解释器匹配的版本。该版本只为{low: Python * 到 }{high:* |某些 Python 版本}构建；更新（或 32 位、更旧）的 Python 看不到它的 wheel，提示却只说找不到版本。",
        fix="用{use: Python * |它支持的 Python }新建环境（uv venv --python {use:*|X.Y}、conda create python={use:*|X.Y}、py -{use:*|X.Y} -m venv）再安装；或改用为 Python {have} 提供 wheel 的版本（{offered}）。",
    ),
    variants={
        "unknown": (
            Text(
                title="pip finds no wheel of {what} for this interpreter (offered: {offered})",
                why="pip lists only what fits the interpreter: its Python version, 64 bit, and the platform. An empty list ('from versions: none') is the sign of a Python that is too new, too old or 32-bit; where others are offered, this release has none for it.",
                fix="Check python --version (and that it is 64-bit); use a Python that the release supports{low: (* to }{high:*)}{use:, for instance *,} in a new environment, or another release.",
            ),
            Text(
                title="pip 找不到适用于该解释器的 {what} wheel（可选：{offered}）",
                why="pip 只列出与解释器匹配的版本：Python 版本、64 位、平台。列表为空（'from versions: none'）说明 Python 太新、太旧或是 32 位；列出了别的版本，则说明这个版本没有对应 wheel。",
                fix="检查 python --version（以及是否 64 位）；在新环境中使用该版本支持的 Python{low:（* 到 }{high:*）}{use:，例如 *}，或换一个版本。",
            ),
        ),
        "range": (
            Text(
                title="{name} wants Python {need}, and this one is {have}",
                why="The package itself says for which Pythons it was made; pip installs it into no other. Releases for a newer Python are newer releases of the framework, under the name of today (tensorflow instead of tensorflow-gpu).",
                fix="Make an environment with a Python in the range {need} (uv venv --python X.Y, conda create python=X.Y, py -X.Y -m venv), or install a release that was made for Python {have}.",
            ),
            Text(
                title="{name} 要求 Python {need}，而当前是 {have}",
                why="软件包自己声明了适用的 Python，pip 不会把它装到别的版本上。更新的 Python 要用框架更新的版本，且用现在的包名（tensorflow，而不是 tensorflow-gpu）。",
                fix="用 {need} 范围内的 Python 新建环境（uv venv --python X.Y、conda create python=X.Y、py -X.Y -m venv），或安装为 Python {have} 制作的版本。",
            ),
        ),
        "file": (
            Text(
                title="The wheel {wheel} is for another Python or platform (here: Python {have})",
                why="The file name carries the interpreter (cp{python}) and platform it was built for; pip refuses any other.",
                fix="Take the wheel whose cpXY and platform tags match this interpreter, or make an environment with Python {python}.",
            ),
            Text(
                title="wheel {wheel} 是为别的 Python 或平台构建的（此处为 Python {have}）",
                why="文件名里写着所对应的解释器（cp{python}）和平台，不符时 pip 会拒绝。",
                fix="换 cpXY 和平台标签与当前解释器一致的 wheel，或用 Python {python} 新建环境。",
            ),
        ),
    },
)
