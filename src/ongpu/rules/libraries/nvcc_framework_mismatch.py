"""The toolkit that compiles an extension is of another CUDA than the framework."""

from collections.abc import Iterator

from ongpu.facts.framework import Torch
from ongpu.facts.libraries import Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

_SAID = ("torch-nvcc-mismatch", "apex-nvcc-mismatch", "deepspeed-nvcc-mismatch", "paddle-nvcc-mismatch")


def check(symptoms: Symptoms | None, toolkit: Toolkit | None, torch: Torch | None) -> Iterator[Finding]:
    have = toolkit.nvcc if toolkit else None
    want = torch.cuda if torch and torch.cuda else None
    if symptoms and symptoms.has(*_SAID):
        accepted = symptoms.value("ok", "deepspeed-nvcc-mismatch")
        if accepted and not symptoms.has("torch-nvcc-mismatch", "apex-nvcc-mismatch"):
            return  # "APIs are compatible, accepting this combination"
        have = symptoms.value("have", *_SAID) or symptoms.value("have2", *_SAID) or have
        want = symptoms.value("want", *_SAID, "apex-minor-mismatch") or want
        yield _finding(have, want, Certainty.CERTAIN, symptoms, toolkit, torch)
        return
    if symptoms and symptoms.has("cuda-runtime-symbol"):
        yield Finding(
            variant="symbol",
            certainty=Certainty.LIKELY,
            values={
                "symbol": symptoms.value("symbol", "cuda-runtime-symbol") or "?",
                "have": have or "?",
                "want": want or "?",
            },
            refs=(
                *symptoms.cite("cuda-runtime-symbol"),
                *(toolkit.about("nvcc", "told_cuda") if toolkit else ()),
                *(torch.about("version", "cuda") if torch else ()),
            ),
        )
        return
    building = (
        symptoms.cite(
            "nvcc-arch-unsupported", "arch-list-unknown", "ninja-failed", "cuda-header-missing", "building-wheel-failed"
        )
        if symptoms
        else ()
    )
    arch = (
        (symptoms.value("arch", "nvcc-arch-unsupported") or symptoms.value("arch2", "nvcc-arch-unsupported")) if symptoms else None
    )
    if building and have and want and have.split(".")[0] != want.split(".")[0]:
        yield _finding(have, want, Certainty.LIKELY, symptoms, toolkit, torch)
    elif arch and have and symptoms and _knows(have, arch) is False:
        yield Finding(
            variant="arch",
            certainty=Certainty.CERTAIN if want else Certainty.LIKELY,
            values={"have": have, "want": want or "?", "arch": arch},
            fixes=(Fix("install-nvcc", {"cuda": want, "dashed": want.replace(".", "-")}),) if want else (),
            refs=(*building, *(toolkit.about("nvcc") if toolkit else ()), *(torch.about("cuda", "version") if torch and want else ())),
        )
    elif symptoms and symptoms.has("nvcc-arch-unsupported", "arch-list-unknown") and not symptoms.has("harmless-ptxas-fallback"):
        arch = (
            symptoms.value("arch", "nvcc-arch-unsupported")
            or symptoms.value("arch2", "nvcc-arch-unsupported")
            or symptoms.value("arch", "arch-list-unknown")
        )
        yield Finding(
            variant="arch",
            certainty=Certainty.LIKELY if want else Certainty.POSSIBLE,
            values={"have": have or "?", "want": want or "?", "arch": arch or "?"},
            fixes=(Fix("install-nvcc", {"cuda": want, "dashed": want.replace(".", "-")}),) if want else (),
            refs=(
                *building,
                *(toolkit.about("nvcc") if toolkit and have else ()),
                *(torch.about("cuda", "version") if torch and want else ()),
            ),
        )


# The first CUDA whose nvcc knows an architecture: CUDA C++ release notes, nvcc --list-gpu-arch
_FIRST = {"70": (9, 0), "72": (9, 2), "75": (10, 0), "80": (11, 0), "86": (11, 1), "87": (11, 4), "89": (11, 8), "90": (11, 8), "100": (12, 8), "120": (12, 8)}  # fmt: skip


def _knows(cuda: str, arch: str) -> bool | None:
    """Whether a toolkit's nvcc knows 'compute_86'; None where the table does not say."""
    number = arch.partition("_")[2].rstrip("af")
    first = _FIRST.get(number)
    return tuple(int(n) for n in cuda.split(".")[:2]) >= first if first else None


def _finding(
    have: str | None,
    want: str | None,
    certainty: Certainty,
    symptoms: Symptoms | None,
    toolkit: Toolkit | None,
    torch: Torch | None,
) -> Finding:
    return Finding(
        certainty=certainty,
        values={
            "have": have or "?",
            "want": want or "?",
            "dashed": (want or "").replace(".", "-"),
            "tag": f"cu{(have or '?').replace('.', '')}",
        },
        fixes=(Fix("install-nvcc", {"cuda": want}), Fix("set-cuda-home", {"cuda": want})) if want else (),
        refs=(
            *(
                symptoms.cite(*_SAID, "apex-minor-mismatch", "nvcc-arch-unsupported", "ninja-failed")
                if symptoms
                else ()
            ),
            *(toolkit.about("nvcc") if toolkit and toolkit.nvcc else ()),
            *(torch.about("cuda", "version") if torch and torch.cuda else ()),
        ),
    )


RULE = Rule(
    slug="nvcc-framework-mismatch",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    hides=("compute-capability-too-new",),
    settle=("nvcc --version", "python -c 'import torch; print(torch.version.cuda)'"),
    see=(
        "https://pytorch.org/docs/stable/cpp_extension.html",
        "https://github.com/NVIDIA/apex/issues/323",
        "https://github.com/deepspeedai/DeepSpeed/issues/3223",
    ),
    en=Text(
        title="nvcc is {have:CUDA *|of one CUDA}, but PyTorch was built for {want:CUDA *|another}",
        why="A CUDA extension is compiled by the nvcc that CUDA_HOME or PATH leads to and must be of the same CUDA major version as the framework{want: (*)}. That nvidia-smi shows another version does not matter here.",
        fix="Install the {want:CUDA * |}toolkit {want:|of torch.version.cuda }(cuda-toolkit-{dashed:*|X-Y}, or conda install -c nvidia cuda-nvcc={want:*|X.Y}) beside the present one and set CUDA_HOME=/usr/local/cuda-{want:*|X.Y} for the build; or install a PyTorch built for the toolkit that you have (index .../whl/{tag}). In pip builds add --no-build-isolation, or pip compiles against another torch.",
    ),
    zh=Text(
        title="nvcc 属于{have: CUDA *|一个 CUDA 版本}，而 PyTorch 是为{want: CUDA * |另一个版本}编译的",
        why="CUDA 扩展由 CUDA_HOME 或 PATH 指向的 nvcc 编译，其 CUDA 主版本必须与框架{want:（*）}相同。nvidia-smi 显示的版本与此无关。",
        fix="并行安装{want: CUDA * |与 torch.version.cuda 一致的}工具包（cuda-toolkit-{dashed:*|X-Y}，或 conda install -c nvidia cuda-nvcc={want:*|X.Y}），编译时设 CUDA_HOME=/usr/local/cuda-{want:*|X.Y}；或安装与现有工具包对应的 PyTorch（索引 .../whl/{tag}）。用 pip 编译时加 --no-build-isolation，否则会针对另一个 torch 编译。",
    ),
    variants={
        "symbol": (
            Text(
                title="A compiled extension was built by the nvcc of another CUDA than the framework's (undefined symbol {symbol})",
                why="{symbol} is a function of the CUDA runtime that exists only from a certain release on. The extension was compiled by a newer nvcc{have: (*)} than the runtime that the framework loads{want: (*)}, or its build folder is left over from an earlier toolkit.",
                fix="Compile the extension again with the nvcc of the framework's CUDA (torch.version.cuda{want: *}): set CUDA_HOME and PATH to it, delete the build folders and *.so first.",
            ),
            Text(
                title="编译好的扩展所用的 nvcc 与框架的 CUDA 不是同一版本（未定义符号 {symbol}）",
                why="{symbol} 是某个版本起才有的 CUDA 运行时函数。扩展由比框架所加载运行时{want:（*）}更新的 nvcc{have:（*）}编译，或 build 目录是旧工具包留下的。",
                fix="用框架所用 CUDA（torch.version.cuda{want: *}）的 nvcc 重新编译扩展：把 CUDA_HOME 和 PATH 指向它，先删除 build 目录和 *.so。",
            ),
        ),
        "arch": (
            Text(
                title="nvcc{have: (CUDA *)} does not know the architecture {arch} that the build asks for",
                why="The build takes its list of architectures from the card or from TORCH_CUDA_ARCH_LIST; the toolkit is older than the card ({arch}), or so new that it has dropped it. {want:PyTorch itself is built for CUDA *.}",
                fix="Use a toolkit that knows {arch}: the one of torch.version.cuda{want: (*)}; set CUDA_HOME to it. Or restrict TORCH_CUDA_ARCH_LIST to what both know (for instance '8.0+PTX').",
            ),
            Text(
                title="nvcc{have:（CUDA *）}不认识构建所要求的架构 {arch}",
                why="构建的架构列表取自显卡或 TORCH_CUDA_ARCH_LIST；工具包比显卡（{arch}）旧，或太新而已不再支持它。{want:PyTorch 本身是为 CUDA * 编译的。}",
                fix="使用认识 {arch} 的工具包，即与 torch.version.cuda{want:（*）}一致的版本，并把 CUDA_HOME 指向它；或把 TORCH_CUDA_ARCH_LIST 限制为双方都支持的架构（如 '8.0+PTX'）。",
            ),
        ),
    },
)
