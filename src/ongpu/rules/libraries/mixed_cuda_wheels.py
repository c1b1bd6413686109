"""nvidia-* wheels of two CUDA majors lie in one environment and overwrite or shadow one another."""

from collections.abc import Iterator

from ongpu.facts.framework import Packages, Torch
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

_WHEEL = lazy(r"^nvidia-(?P<lib>[a-z\-]+?)-cu(?P<major>1[123])$")
_PLAIN = lazy(
    r"^nvidia-(?P<lib>cublas|cuda-runtime|cufft|curand|cusolver|cusparse|cuda-nvrtc|cuda-cupti|nvjitlink|cufile|nvtx)$"
)


def check(packages: Packages | None, torch: Torch | None, symptoms: Symptoms | None) -> Iterator[Finding]:
    if symptoms and symptoms.has("pip-nvidia-conflict"):
        hit = symptoms.seen("pip-nvidia-conflict")[0]
        yield Finding(
            variant="pins",
            certainty=Certainty.LIKELY,
            values={name: hit.groups.get(name, "?") for name in ("name", "version", "need", "have")},
            fixes=(Fix("reinstall-pinned", {"need": hit.groups.get("need", "")}),),
            refs=symptoms.cite("pip-nvidia-conflict"),
        )
        return
    if packages is None:
        return
    found: dict[str, dict[str, str]] = {}
    for name in packages.packages:
        if match := _WHEEL.match(name):
            found.setdefault(match["lib"], {})[match["major"]] = name
        elif match := _PLAIN.match(name):
            found.setdefault(match["lib"], {})["13"] = name
    doubled = {lib: names for lib, names in found.items() if len(names) > 1}
    majors = sorted({major for names in found.values() for major in names})
    broken = (
        symptoms.cite(
            "nccl-symbol",
            "cublas-symbol",
            "nvjitlink-symbol",
            "cuda-api-symbol",
            "cudnn-graph-symbol",
            "cudnn-sublibrary",
            "symbol-lookup-error",
            "shared-object-missing",
            "cudnn-error",
            "cublas-init-line",
        )
        if symptoms
        else ()
    )
    if not doubled and not (broken and len(majors) > 1):
        return
    built = torch.cuda.split(".")[0] if torch and torch.cuda else majors[-1]
    names = [name for lib in (doubled or found).values() for name in lib.values()]
    wrong = [name for lib in (doubled or found).values() for major, name in lib.items() if major != built]
    right = [name for lib in (doubled or found).values() for major, name in lib.items() if major == built]
    yield Finding(
        severity=Severity.ERROR if broken else Severity.WARNING,
        certainty=Certainty.CERTAIN if broken and doubled else Certainty.LIKELY,
        values={
            "wheels": sorted(names)[:8],
            "majors": " and ".join(majors),
            "wrong": " ".join(sorted(wrong)) or "?",
            "right": " ".join(
                f"{n}=={packages.packages[n].version}" if packages.packages[n].version else n for n in sorted(right)
            )
            or "?",
            "built": built,
        },
        fixes=(Fix("remove-mixed-wheels"),) if wrong and right else (),
        refs=(
            *broken,
            *packages.cite(*sorted(names)[:8]),
            *(torch.about("version", "cuda") if torch and torch.cuda else ()),
        ),
    )


RULE = Rule(
    slug="mixed-cuda-wheels",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable", "cudnn-execution-failed", "cublas-init-failed"),
    settle=("pip list | grep -i nvidia", "pip check"),
    see=(
        "https://github.com/pytorch/pytorch/issues/186591",
        "https://packaging.python.org/en/latest/specifications/recording-installed-packages/",
    ),
    en=Text(
        title="NVIDIA wheels of CUDA {majors} are installed side by side: {wheels}",
        why="Wheels of different CUDA majors unpack into the same folders (site-packages/nvidia/nccl/lib and so on) or are found in the wrong order, so that the file of one major replaces that of the other; the framework here is built for CUDA {built}.",
        fix="Uninstall the wheels of the other major ({wrong}), then reinstall those of CUDA {built} ({right}), because uninstalling removes the shared files too. A new environment is the clean way when many are mixed.",
    ),
    zh=Text(
        title="同一环境里混装了 CUDA {majors} 的 NVIDIA wheel：{wheels}",
        why="不同 CUDA 主版本的 wheel 会解压到同一目录（如 site-packages/nvidia/nccl/lib），或以错误的顺序被找到，一个版本的文件盖掉另一个；此处框架是为 CUDA {built} 编译的。",
        fix="卸载另一主版本的 wheel（{wrong}），再重装 CUDA {built} 的那些（{right}），因为卸载会把共用的文件一并删掉。混得多时，新建环境最干净。",
    ),
    variants={
        "pins": (
            Text(
                title="{name} {version} wants {need}, but {have} was installed over it",
                why="Two frameworks in one environment pin different versions of the same nvidia-*-cu12 wheels, and there can be only one of each. The one installed last wins; the other then loads libraries that it was not built with.",
                fix="Give each framework an environment of its own, or restore the pins: pip install {need} (and its siblings), or choose releases of both that ask for the same wheels; pip check must be silent.",
            ),
            Text(
                title="{name} {version} 要求 {need}，却被 {have} 覆盖了",
                why="同一环境里的两个框架固定了同一批 nvidia-*-cu12 wheel 的不同版本，而每个 wheel 只能有一份。后装者生效，另一个就会加载并非它编译时所用的库。",
                fix="让两个框架各用一个环境；或恢复固定的版本：pip install {need}（及同组的其他 wheel）；或选用要求相同 wheel 的两个版本；直到 pip check 没有提示。",
            ),
        ),
    },
)
