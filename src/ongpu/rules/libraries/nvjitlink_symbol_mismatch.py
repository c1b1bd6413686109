"""libcusparse (or another library) gets a libnvJitLink of another version than it was built with."""

import re
from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.framework import Packages, Torch
from ongpu.facts.libraries import Loader
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(
    symptoms: Symptoms | None,
    loader: Loader | None,
    variables: Variables | None,
    packages: Packages | None,
    torch: Torch | None,
) -> Iterator[Finding]:
    said = symptoms.cite("nvjitlink-symbol", "cublas-symbol") if symptoms else ()
    symbol = (
        symptoms.value("symbol", "nvjitlink-symbol")
        or symptoms.value("symbol2", "nvjitlink-symbol")
        or symptoms.value("symbol", "cublas-symbol")
        if symptoms
        else None
    )
    jit = [
        item
        for item in (loader.loaded if loader else ())
        if item.name.startswith("libnvJitLink") and item.path.startswith("/")
    ]
    outside = [item for item in jit if "site-packages" not in item.path and "site-packages" in item.by]
    path = variables.get("LD_LIBRARY_PATH") if variables else None
    if not said and not outside:
        return
    if (
        symptoms
        and not symptoms.has("nvjitlink-symbol")
        and not outside
        and (symptoms.has("module-loaded") or (path and re.search(r"cuda|cudnn|hpc_sdk", path, re.IGNORECASE)))
    ):
        return  # LD_LIBRARY_PATH is told: ld-library-path-conflict
    asked = re.search(r"_(\d+)_(\d+)$", symbol or "")
    wheels = (
        packages.cite(
            "nvidia-nvjitlink-cu12", "nvidia-cusparse-cu12", "nvidia-nvjitlink-cu13", "nvidia-cublas-cu12", "torch"
        )
        if packages
        else ()
    )
    where = outside[0].path if outside else path or "?"
    library = (
        "libnvJitLink.so.12"
        if outside or (symptoms and symptoms.has("nvjitlink-symbol"))
        else (symptoms.value("version", "cublas-symbol") if symptoms else None) or _of(symbol or "")
    )
    yield Finding(
        variant="other"
        if library.startswith(("libcublas", "libcusparse", "libcusolver", "libcufft", "libnvrtc"))
        else "",
        certainty=Certainty.CERTAIN if symptoms and symptoms.has("nvjitlink-symbol") else Certainty.LIKELY,
        values={
            "symbol": symbol or "__nvJitLink*",
            "cuda": f"{asked[1]}.{asked[2]}" if asked else "?",
            "library": library,
            "where": where,
        },
        fixes=(Fix("unset-library-path"), Fix("show-library-resolution"), Fix("upgrade-nvjitlink")),
        refs=(
            *said,
            *(i.ref for i in outside if i.ref),
            *(variables.cite("LD_LIBRARY_PATH") if variables else ()),
            *wheels,
        ),
    )


def _of(symbol: str) -> str:
    for start, library in (
        ("cublas", "libcublas"),
        ("cusparse", "libcusparse"),
        ("cusolver", "libcusolver"),
        ("cufft", "libcufft"),
        ("nvrtc", "libnvrtc"),
    ):
        if symbol.startswith(start):
            return library
    return "libnvJitLink.so.12"


RULE = Rule(
    slug="nvjitlink-symbol-mismatch",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    hides=("ld-library-path-conflict", "cuda-unavailable", "companion-package-mismatch", "module-shadowed"),
    settle=(
        "echo $LD_LIBRARY_PATH",
        "ldd $(python -c 'import nvidia.cusparse as m; print(m.__path__[0])')/lib/libcusparse.so.12",
        "pip list | grep -E 'nvjitlink|cusparse|cublas'",
    ),
    see=("https://github.com/pytorch/pytorch/issues/111469", "https://github.com/pytorch/pytorch/issues/134929"),
    en=Text(
        title="An older {library} is loaded than the CUDA libraries beside it need (symbol {symbol})",
        why="libcusparse and libcublas of CUDA 12 and newer ask libnvJitLink for functions whose names carry the version ({cuda}). The loader found a {library} that lacks them: that of a system toolkit on LD_LIBRARY_PATH{where: (*)}, of conda, or an older nvidia-nvjitlink wheel.",
        fix="Unset LD_LIBRARY_PATH, or put site-packages/nvidia/nvjitlink/lib in front of it; if no such path is set, upgrade the wheel: pip install -U nvidia-nvjitlink-cu12, to the same version as nvidia-cusparse-cu12 or newer.",
    ),
    zh=Text(
        title="加载到的 {library} 比旁边的 CUDA 库所需的旧（符号 {symbol}）",
        why="CUDA 12 起，libcusparse 和 libcublas 向 libnvJitLink 请求名字带版本号的函数（{cuda}）。加载器找到的 {library} 里没有：它来自 LD_LIBRARY_PATH 上的系统工具包{where:（*）}、conda，或旧的 nvidia-nvjitlink wheel。",
        fix="unset LD_LIBRARY_PATH，或把 site-packages/nvidia/nvjitlink/lib 放在最前；若没有设置这类路径，则升级 wheel：pip install -U nvidia-nvjitlink-cu12，版本不低于 nvidia-cusparse-cu12。",
    ),
    variants={
        "other": (
            Text(
                title="CUDA libraries of different versions are loaded together: {library} lacks the symbol {symbol}",
                why="cuBLAS, cuBLASLt, cuSPARSE and their kin must come from one CUDA release. Another copy was found first, through LD_LIBRARY_PATH{where: (*)}, conda, or leftover nvidia-* wheels.",
                fix="Unset LD_LIBRARY_PATH; then reinstall the framework so that all nvidia-*-cu* wheels are the versions that it pins (pip check names those that are not). pip uninstall nvidia-cublas-cu11 and other leftovers of another CUDA.",
            ),
            Text(
                title="同时加载了不同版本的 CUDA 库：{library} 里没有符号 {symbol}",
                why="cuBLAS、cuBLASLt、cuSPARSE 等必须来自同一个 CUDA 版本。另一份库因 LD_LIBRARY_PATH{where:（*）}、conda 或残留的 nvidia-* wheel 而先被找到。",
                fix="unset LD_LIBRARY_PATH；然后重装框架，使所有 nvidia-*-cu* wheel 与其固定的版本一致（pip check 会列出不一致的）。用 pip uninstall 删掉 nvidia-cublas-cu11 等属于其他 CUDA 的残留。",
            ),
        ),
    },
)
