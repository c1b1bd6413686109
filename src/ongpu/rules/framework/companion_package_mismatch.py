"""A package with compiled code (torchvision, xformers, flash-attn ...) was built for another release of the framework.

Longer than 400 lines because one cause has nine faces, each with its own words in two languages.
"""

import re
from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.framework import Package, Packages, Torch
from ongpu.facts.installs import Installs, name_of
from ongpu.facts.intent import goes_on
from ongpu.facts.libraries import Loader
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge import others
from ongpu.knowledge._versions import numbers
from ongpu.knowledge.torch import build_of, companions, release, torch_for_companion
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

_TABLE = ("torchvision", "torchaudio", "xformers")
# fmt: off
_BROKEN = (
    "torch-undefined-symbol", "torch-python-symbol", "torchvision-nms", "different-cuda-versions", "xformers-built-for", "libtorch-missing",
    "bnb-binary-missing", "jaxlib-mismatch", "torch-attribute", "triton-mismatch", "extension-dll-load", "procedure-not-found",
)
# fmt: on
_SURE = (
    "torch-undefined-symbol",
    "torchvision-nms",
    "different-cuda-versions",
    "xformers-built-for",
    "jaxlib-mismatch",
)


def check(
    symptoms: Symptoms | None,
    packages: Packages | None,
    torch: Torch | None,
    loader: Loader | None,
    installs: Installs | None,
    trace: Traceback | None,
) -> Iterator[Finding]:
    broken = symptoms.cite(*_BROKEN) if symptoms else ()
    version = torch.version if torch and torch.version else None
    seen = list(_pairs(packages, version))
    if broken and symptoms:
        yield from _told(symptoms, packages, torch, installs, trace, broken, seen)
        return
    if seen:
        name, have, want, ref = seen[0]
        yield Finding(
            variant="versions",
            certainty=Certainty.LIKELY,
            severity=Severity.WARNING,
            values=_versions(name, have, version, want),
            fixes=_fixes(name, version, torch),
            refs=(
                *((ref,) if ref else ()),
                *(packages.cite("torch") if packages else ()),
                *(torch.about("version") if torch else ()),
            ),
        )
        return
    if of_jax := _jax(packages):
        yield of_jax
        return
    if pinned := _pinned(packages, version):
        yield pinned
        return
    if symptoms and symptoms.has("pip-incompatible"):
        hit = symptoms.seen("pip-incompatible")[0]
        if re.match(r"torch|numpy|jax|tensorflow|triton", hit.groups.get("need", "")) and re.match(
            r"torch|xformers|vllm|jax|tensorflow|keras|flash|triton|bitsandbytes", hit.groups.get("name", "")
        ):
            yield Finding(
                variant="pip",
                certainty=Certainty.LIKELY,
                severity=Severity.WARNING,
                values={
                    "name": hit.groups.get("name", "?"),
                    "version": hit.groups.get("version", "?"),
                    "need": hit.groups.get("need", "?"),
                    "have": hit.groups.get("have", "?"),
                },
                refs=symptoms.cite("pip-incompatible"),
            )
    elif loader and torch and torch.cuda and symptoms and symptoms.has("companion-import"):
        asked = next(
            (m[1] for item in loader.missing() if (m := re.match(r"lib(?:cudart|cublas)\.so\.(\d+)", item.name))), None
        )
        if asked and asked != torch.cuda.split(".")[0]:
            name = symptoms.value("name", "companion-import") or "?"
            yield Finding(
                variant="cuda",
                certainty=Certainty.CERTAIN,
                values={"name": name, "cuda": asked, "torch": version or "?", "have": torch.cuda},
                fixes=(Fix("rebuild-package", {"name": name.replace("_", "-")}),),
                refs=(
                    *(i.ref for i in loader.missing() if i.ref),
                    *symptoms.cite("companion-import", most=2),
                    *torch.about("version", "cuda"),
                ),
            )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _jax(packages: Packages | None) -> Finding | None:
    """jax and jaxlib of different series: jax wants a jaxlib no newer than itself and of its own series."""
    jax, lib = (packages.get(name) if packages else None for name in ("jax", "jaxlib"))
    if not jax or not lib or jax.prose or lib.prose or not jax.version or not lib.version or _minor(jax.public) == _minor(lib.public):
        return None
    return Finding(
        variant="jax",
        certainty=Certainty.LIKELY,
        severity=Severity.WARNING,
        values={"jax": jax.version, "jaxlib": f"jaxlib {lib.version}"},
        refs=tuple(one.ref for one in (jax, lib) if one.ref),
    )


def _pinned(packages: Packages | None, version: str | None) -> Finding | None:
    """cuDNN or triton of another major release than the one that this torch was built with (its wheel pins them exactly)."""
    torch = release(version) if version else None
    if not packages or not version or not torch or not packages.get("torch") or build_of(version) == "cpu":
        return None
    for key, names in (("cudnn", ("nvidia-cudnn-cu11", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13")), ("triton", ("triton",))):
        package, want = packages.get(*names), torch.pins.get(key)
        if package and want and package.version and not (package.build or package.prose) and (packages.complete or _listed(package)) and package.public.split(".")[0] != want.split(".")[0]:
            return Finding(
                variant="pinned",
                certainty=Certainty.LIKELY,
                severity=Severity.WARNING,
                values={"name": package.name, "have": package.version, "torch": version, "want": want},
                refs=(*((package.ref,) if package.ref else ()), *packages.cite("torch")),
            )
    return None


def _listed(package: Package) -> bool:
    """Whether the line holds the name and the version and nothing else, as lists do: "please install triton==1.0.0" is advice."""
    words = re.split(r"[\s=]+", package.ref.quote.strip()) if package.ref else []
    return len(words) == 2 and words[1] == package.version


def _pairs(packages: Packages | None, version: str | None) -> Iterator[tuple[str, str, str, Ref | None]]:
    """Companions whose version, or whose build, does not go with torch's: (name, version, what goes with it, line)."""
    if not packages or not version:
        return
    build = build_of(version)
    fit = companions(version)
    for name in _TABLE:
        package = packages.get(name)
        if not package or not package.version or (package.prose and name == "xformers"):
            continue
        good = fit.get(name, ())
        minor = ".".join(package.public.split(".")[:2])
        if name == "xformers":
            # Numbered 0.0.N, each bound to one release of torch; from the one for 2.10 on they use its stable ABI.
            made_for = {_minor(one) for one in torch_for_companion(name, package.public)}
            if good and package.public not in good and made_for and _minor(version) not in made_for and numbers(version) < (2, 10):
                yield name, package.version, good[0], package.ref
        elif (
            good
            and package.public not in good
            and minor not in {".".join(g.split(".")[:2]) for g in good}
            and torch_for_companion(name, package.public)
        ):
            yield name, package.version, good[0], package.ref
        elif (
            build
            and (other := build_of(package.version))
            and other != build
            and {other, build} != {"cpu"}
            and other[:2] in ("cu", "cp", "ro")
        ):
            yield name, package.version, f"{good[0] if good else package.public}+{build}", package.ref
    for name in ("vllm", "flash-attn", "torchcodec", "dgl"):
        package = packages.get(name)
        if package and package.version and others.torch_ok(name, package.version, version) is False:
            yield name, package.version, f"torch {others.torch_spec(name, package.version)}", package.ref


def _versions(name: str, have: str, version: str | None, want: str) -> dict[str, object]:
    go = torch_for_companion(name, have)
    return {"name": name, "have": have, "torch": version or "?", "want": want, "other": go[0] if go else "?"}


def _fixes(name: str, version: str | None, torch: Torch | None) -> tuple[Fix, ...]:
    if not version or not release(version):
        return ()
    build = build_of(version) or (f"cu{torch.cuda.replace('.', '')}" if torch and torch.cuda else None)
    fit = companions(version)
    wanted = [
        f"torch=={version.partition('+')[0]}",
        *(f"{n}=={fit[n][0]}" for n in ("torchvision", "torchaudio") if n in fit),
    ]
    if name == "xformers" and "xformers" in fit:
        wanted.append(f"xformers=={fit['xformers'][0]}")
    return (Fix("install-companions", {"packages": " ".join(wanted), "tag": build}),) if build else ()


def _told(
    symptoms: Symptoms,
    packages: Packages | None,
    torch: Torch | None,
    installs: Installs | None,
    trace: Traceback | None,
    broken: tuple[Ref, ...],
    seen: list[tuple[str, str, str, Ref | None]],
) -> Iterator[Finding]:
    version = torch.version if torch and torch.version else None
    name = _name(symptoms, packages, installs, trace, seen)
    package: Package | None = packages.get(name.replace("_", "-")) if packages and name else None
    refs = (
        *broken,
        *((package.ref,) if package and package.ref else ()),
        *(torch.about("version", "cuda") if torch and version else ()),
        *symptoms.cite("companion-import", "xformers-built-detail", most=2),
    )
    weak = not symptoms.has(*_SURE)
    vague = symptoms.has("torch-attribute", "extension-dll-load", "procedure-not-found") and not symptoms.has(
        "libtorch-missing", "bnb-binary-missing", "torch-python-symbol", "triton-mismatch"
    )
    points = (
        seen
        or (package and version)
        or symptoms.has("extension-dll-load")
        or symptoms.value("module3", "torch-attribute")
        or (symptoms.value("module2", "torch-attribute") and not symptoms.has("unknown-location", "not-a-package"))
        or (symptoms.has("torch-attribute") and symptoms.has("companion-import"))
    )
    if weak and vague and not points:
        return
    if symptoms.has("bnb-binary-missing") and not symptoms.has(*_SURE):
        binary = symptoms.value("lib", "bnb-binary-missing") or "libbitsandbytes_cuda*.so"
        digits = re.search(r"cuda(\d+)", binary)
        yield Finding(
            variant="bnb",
            certainty=Certainty.LIKELY,
            values={
                "lib": binary,
                "cuda": f"{digits[1][:-1]}.{digits[1][-1]}"
                if digits
                else (torch.cuda if torch and torch.cuda else "?"),
                "torch": version or "?",
            },
            fixes=(Fix("upgrade-package", {"packages": "bitsandbytes"}),),
            refs=refs,
        )
        return
    if symptoms.has("jaxlib-mismatch"):
        plugins = [name for name in ("jax-cuda12-plugin", "jax-cuda13-plugin", "jax-cuda11-plugin") if packages and packages.get(name)]
        plugin = (
            symptoms.value("plugin", "jaxlib-mismatch")
            or symptoms.value("p2", "jaxlib-mismatch")
            or (packages.version(plugins[0]) if packages and plugins else None)
        )
        found = (
            symptoms.value("jaxlib", "jaxlib-mismatch")
            or symptoms.value("jaxlib2", "jaxlib-mismatch")
            or (packages.version("jaxlib") if packages else None)
            or "?"
        )
        yield Finding(
            variant="jax",
            certainty=Certainty.CERTAIN,
            values={
                "jax": symptoms.value("jax", "jaxlib-mismatch")
                or (packages.version("jax") if packages else None)
                or "?",
                "jaxlib": f"{found}, plugin {plugin}" if plugin and plugin != found else found,
            },
            fixes=(Fix("jax-cuda", {"extra": "cuda12"}),),
            refs=(*refs, *(packages.cite(*plugins, "jaxlib") if packages else ())),
        )
        return
    lib = symptoms.value("lib", "libtorch-missing")
    if lib and not symptoms.has(*_SURE):
        asked = (
            tuple(i.ref for i in installs.installs if any(name_of(a).startswith("torch") for a in i.asked))
            if installs
            else ()
        )
        local = next(
            (
                build_of(a.partition("==")[2])
                for i in (installs.installs if installs else ())
                for a in i.asked
                if "+" in a
            ),
            None,
        )
        tag = local or (build_of(version) if version else None) or "?"
        yield Finding(
            variant="hip" if "hip" in lib else "library",
            certainty=Certainty.LIKELY,
            values={"lib": lib, "name": name or "?", "torch": version or "?", "tag": tag},
            fixes=_fixes(name or "", version, torch),
            refs=(*refs, *asked),
        )
        return
    optional = {hit.name for hit in symptoms.seen(*_BROKEN)} == {"xformers-built-for"} and trace is None and goes_on(symptoms)
    pair = next((p for p in seen if p[0] == name), seen[0] if seen else None)
    if pair:
        yield Finding(
            variant="versions",
            certainty=Certainty.CERTAIN,
            values=_versions(pair[0], pair[1], version, pair[2]),
            fixes=_fixes(pair[0], version, torch),
            refs=(*refs, *((pair[3],) if pair[3] else ())),
        )
        return
    wanted = symptoms.value("want", "xformers-built-detail")
    have = symptoms.value("have", "xformers-built-detail") or version
    good = companions(have).get(name, ()) if have and name in _TABLE else ()
    yield Finding(
        variant="xformers" if symptoms.has("xformers-built-for") else "",
        certainty=Certainty.LIKELY if weak else Certainty.CERTAIN,
        severity=Severity.NOTE if optional else None,  # it works on without them
        values={
            "name": name or "?",
            "have": package.version if package and package.version else "?",
            "torch": have or "?",
            "built": wanted or "?",
            "good": f"{name}=={good[0]}" if good else name or "?",
            "symbol": symptoms.value("symbol", "torch-undefined-symbol", "torch-python-symbol") or "?",
        },
        fixes=_fixes(name or "", version, torch)
        if name in _TABLE
        else (Fix("rebuild-package", {"name": name.replace("_", "-")}),)
        if name
        else (),
        refs=refs,
    )


def _name(
    symptoms: Symptoms,
    packages: Packages | None,
    installs: Installs | None,
    trace: Traceback | None,
    seen: list[tuple[str, str, str, Ref | None]],
) -> str:
    """Which package it is, as far as the lines say."""
    for hit in symptoms.seen("torch-undefined-symbol", "torch-python-symbol", "extension-dll-load"):
        quote = hit.ref.quote
        for name in (
            "flash_attn",
            "torchvision",
            "torchaudio",
            "xformers",
            "torch_scatter",
            "torch_sparse",
            "torch_cluster",
            "mmcv",
            "detectron2",
            "apex",
            "vllm",
            "mamba_ssm",
            "selective_scan",
            "causal_conv1d",
            "bitsandbytes",
            "torchtext",
            "pytorch3d",
            "transformer_engine",
            "deepspeed",
            "torchcodec",
            "natten",
            "exllama",
            "awq",
        ):
            if name in quote:
                return {"selective_scan": "mamba_ssm"}.get(name, name)
    if symptoms.has("torchvision-nms"):
        return "torchvision"
    if symptoms.has("xformers-built-for"):
        return "xformers"
    if what := symptoms.value("what", "different-cuda-versions") or symptoms.value("what2", "different-cuda-versions"):
        return what.lower()
    if seen:
        return seen[0][0]
    if trace:
        for frame in reversed(trace.frames):
            match = re.search(r"(?:site|dist)-packages[/\\](\w+)", frame.file)
            if match and match[1] not in ("torch", "numpy", "transformers", "importlib"):
                return match[1]
    if told := symptoms.value("name", "companion-import"):
        return told
    for item in installs.installs if installs else ():
        for asked in item.asked:
            if (
                name_of(asked) in ("torchaudio", "torchvision")
                and "+" not in asked
                and any("+" in a for a in item.asked)
            ):
                return name_of(asked)
    for hit in symptoms.seen("libtorch-missing"):
        if match := re.search(r"import (torch\w+)|(torchaudio|torchvision|torchtext)", hit.ref.quote):
            return match[1] or match[2]
    return next(
        (
            n.replace("-", "_")
            for n in (
                "flash-attn",
                "xformers",
                "torchvision",
                "torchaudio",
                "mmcv-full",
                "mmcv",
                "torch-scatter",
                "vllm",
                "mamba-ssm",
                "bitsandbytes",
            )
            if packages and packages.get(n)
        ),
        "",
    )


RULE = Rule(
    slug="companion-package-mismatch",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-lib-missing",),
    settle=("pip list | grep -iE 'torch|xformers|flash|triton'", "pip check"),
    see=(
        "https://github.com/pytorch/vision#installation",
        "https://github.com/pytorch/pytorch/wiki/PyTorch-Versions",
        "https://github.com/Dao-AILab/flash-attention/releases",
    ),
    en=Text(
        title="{name}{have: (*)} was built for another PyTorch than the one installed{torch: (*)}",
        why="The compiled part of {name} is bound to one release of PyTorch (and its CUDA and C++ ABI): its symbols {symbol:(*) }do not exist in another. An upgrade of either package alone, often by a dependency, breaks the pair.",
        fix="Install the {name} that belongs to {torch:torch *|the installed torch}: the wheel whose file name carries that torch version, CUDA and cxx11abi value (for flash-attn 2.7.4.post1 and torch 2.6, for instance), or build it against the installed torch: pip install --force-reinstall --no-deps --no-build-isolation --no-binary {name} {name}; or go back to the torch it was built for.",
    ),
    zh=Text(
        title="{name}{have:（*）}是为另一个版本的 PyTorch 编译的，与已装的{torch:（*）}不符",
        why="{name} 的编译部分绑定于某一个 PyTorch 版本（及其 CUDA 和 C++ ABI），其符号{symbol:（*）}在别的版本里不存在。只升级其中一个包（常由依赖触发）就会破坏配对。",
        fix="安装与{torch: torch * |已装的 torch }对应的 {name}：文件名里的 torch 版本、CUDA、cxx11abi 都要一致（例如 torch 2.6 用 flash-attn 2.7.4.post1）；或针对现有 torch 编译：pip install --force-reinstall --no-deps --no-build-isolation --no-binary {name} {name}；或退回它所对应的 torch。",
    ),
    variants={
        "versions": (
            Text(
                title="{name} {have} does not go with torch {torch}: it needs {want}",
                why="torch, torchvision, torchaudio and xformers are released in step and must be of one release and one CUDA build. Something (another package's requirement) replaced one of them and left the other: {name} {have} belongs to torch {other}.",
                fix="Install them together from one index: torch {torch} with {name} {want}, or {name} {have} with torch {other}; afterwards pip check.",
            ),
            Text(
                title="{name} {have} 与 torch {torch} 不配套：应为 {want}",
                why="torch、torchvision、torchaudio、xformers 同步发布，必须同一版本、同一 CUDA 构建。某个包的依赖替换了其中一个，另一个留在原处：{name} {have} 对应 torch {other}。",
                fix="从同一个索引一起安装：torch {torch} 配 {name} {want}，或 {name} {have} 配 torch {other}；装完用 pip check 核对。",
            ),
        ),
        "xformers": (
            Text(
                title="xFormers was built for {built:PyTorch *|another PyTorch}, but {torch} is installed",
                why="xFormers' C++/CUDA part is bound to one PyTorch release and CUDA; with another it cannot be loaded and memory-efficient attention is missing. Installing xformers can also replace torch.",
                fix="Install the pair: {good} for torch {torch}{built: (or torch * for this xFormers)} from the same index, with pip install --index-url https://download.pytorch.org/whl/cuXXX; or leave xFormers out: torch's scaled_dot_product_attention does the same.",
            ),
            Text(
                title="xFormers 是为{built: PyTorch * |另一个 PyTorch 版本}编译的，而装的是 {torch}",
                why="xFormers 的 C++/CUDA 部分绑定于一个 PyTorch 版本和 CUDA，换了就无法加载，memory-efficient attention 也随之缺失。安装 xformers 还可能顺带替换 torch。",
                fix="成对安装：torch {torch} 用 {good}{built:（或为这个 xFormers 装 torch *）}，同一索引 pip install --index-url https://download.pytorch.org/whl/cuXXX；也可以不用 xFormers，torch 的 scaled_dot_product_attention 作用相同。",
            ),
        ),
        "pinned": (
            Text(
                title="{name} {have} does not go with torch {torch}, which was built with {want}",
                why="The wheel of torch pins the exact {name} that it was built with. Of another major release the library has another file name or other functions: it is not found, or calls into it fail.",
                fix='Install the one that torch asks for: pip install "{name}=={want}"; what asked for {have} wants a torch of its own environment. Then pip check.',
            ),
            Text(
                title="{name} {have} 与 torch {torch} 不配套：后者是用 {want} 构建的",
                why="torch 的 wheel 固定了构建时所用的 {name} 版本。主版本不同的库，文件名或函数不同：要么找不到，要么调用失败。",
                fix='安装 torch 要求的版本：pip install "{name}=={want}"；需要 {have} 的程序应放在单独的环境里。装完运行 pip check。',
            ),
        ),
        "library": (
            Text(
                title="{name} needs {lib}, which the installed PyTorch ({torch}) does not have",
                why="{lib} is a part of PyTorch itself, of another release or build: a CUDA companion beside a CPU torch asks for libtorch_cuda / libc10_cuda, one for an older torch for libtorch_cuda_cu. Installing CUDA does not supply it.",
                fix="Reinstall {name} for torch {torch}, or both together from one index (same +cuXXX suffix).",
            ),
            Text(
                title="{name} 需要 {lib}，而已装的 PyTorch（{torch}）里没有",
                why="{lib} 是 PyTorch 自身的组成部分，只是属于别的版本或构建：CUDA 版的配套包遇到 CPU 版 torch 会找 libtorch_cuda / libc10_cuda，为旧 torch 编译的会找 libtorch_cuda_cu。安装 CUDA 补不上它。",
                fix="按 torch {torch} 重装 {name}，或从同一索引（相同 +cuXXX 后缀）一起重装。",
            ),
        ),
        "hip": (
            Text(
                title="{name} is a ROCm build (it asks for {lib}) beside a CUDA build of torch ({tag})",
                why="{lib} belongs to PyTorch for AMD GPUs. Without a local version suffix pip took the ROCm wheel of {name} from the find-links page, though torch was asked for with +{tag}.",
                fix="Name the suffix for every package: {name}==VERSION+{tag} (pip install --force-reinstall), or use one --index-url https://download.pytorch.org/whl/{tag} instead of -f torch_stable.html.",
            ),
            Text(
                title="{name} 是 ROCm 构建（它要 {lib}），而 torch 是 CUDA 构建（{tag}）",
                why="{lib} 属于面向 AMD GPU 的 PyTorch。没写版本后缀时，pip 从 find-links 页面取了 {name} 的 ROCm wheel，尽管 torch 指定了 +{tag}。",
                fix="每个包都写明后缀：{name}==版本+{tag}（pip install --force-reinstall），或用 --index-url https://download.pytorch.org/whl/{tag} 代替 -f torch_stable.html。",
            ),
        ),
        "bnb": (
            Text(
                title="bitsandbytes has no library for the CUDA of this PyTorch ({lib}; CUDA {cuda})",
                why="bitsandbytes picks its compiled library by torch.version.cuda. The installed release does not contain one for CUDA {cuda}: torch is newer than it, or it is a build without CUDA.",
                fix="pip install -U bitsandbytes (a release that lists CUDA {cuda}), or set BNB_CUDA_VERSION to a version whose library it has and whose CUDA runtime is installed; `python -m bitsandbytes` shows what it finds.",
            ),
            Text(
                title="bitsandbytes 没有与此 PyTorch 的 CUDA 对应的库（{lib}；CUDA {cuda}）",
                why="bitsandbytes 按 torch.version.cuda 选择编译好的库。已装版本不含 CUDA {cuda} 的库：torch 比它新，或它是无 CUDA 的构建。",
                fix="pip install -U bitsandbytes（选支持 CUDA {cuda} 的版本），或把 BNB_CUDA_VERSION 设为它自带、且已装有对应运行库的版本；`python -m bitsandbytes` 可查看检测结果。",
            ),
        ),
        "jax": (
            Text(
                title="jax{jax: *} and jaxlib or its plugin{jaxlib: (*)} are of different versions",
                why="jax, jaxlib and the CUDA plugins must be of one release; otherwise the import fails or the plugin is ignored.",
                fix='pip install -U "jax[cuda12]" (or pin jax, jaxlib, jax-cuda12-plugin and jax-cuda12-pjrt to one version).',
            ),
            Text(
                title="jax{jax: *} 与 jaxlib 或其插件{jaxlib:（*）}版本不一致",
                why="jax、jaxlib 和 CUDA 插件必须同一版本，否则导入失败或插件被忽略。",
                fix='pip install -U "jax[cuda12]"（或把 jax、jaxlib、jax-cuda12-plugin、jax-cuda12-pjrt 固定为同一版本）。',
            ),
        ),
        "pip": (
            Text(
                title="{name} {version} requires {need}, but {have} is installed",
                why="pip reports that an install replaced a package that another one is bound to. Compiled companions of torch fail at import or silently lose their CUDA part.",
                fix="Install both so that the requirement holds ({need}), from one index; then pip check.",
            ),
            Text(
                title="{name} {version} 要求 {need}，而装的是 {have}",
                why="pip 提示某次安装替换了另一个包所绑定的版本。torch 的编译型配套包会因此导入失败，或悄悄失去 CUDA 部分。",
                fix="从同一索引重新安装两者，使依赖成立（{need}），再 pip check。",
            ),
        ),
        "cuda": (
            Text(
                title="{name} was built for CUDA {cuda}, but PyTorch ({torch}) is built for CUDA {have}",
                why="The compiled part of {name} asks for the CUDA {cuda} runtime. Beside a PyTorch of another CUDA major it would not fit even if that library were installed.",
                fix="Install a {name} built for torch {torch} (CUDA {have}): the matching wheel, or build it: pip install --force-reinstall --no-deps --no-build-isolation --no-binary :all: {name}.",
            ),
            Text(
                title="{name} 是为 CUDA {cuda} 编译的，而 PyTorch（{torch}）是为 CUDA {have} 编译的",
                why="{name} 的编译部分要求 CUDA {cuda} 运行库。与另一 CUDA 主版本的 PyTorch 放在一起，即使装上那个库也不匹配。",
                fix="安装为 torch {torch}（CUDA {have}）编译的 {name}：选对应的 wheel，或自行编译：pip install --force-reinstall --no-deps --no-build-isolation --no-binary :all: {name}。",
            ),
        ),
    },
)
