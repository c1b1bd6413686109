"""The ranks, or the framework and the library, have different NCCL releases."""

from collections.abc import Iterator

from ongpu.facts.framework import Packages
from ongpu.facts.nccl import NcclLog
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(nccl: NcclLog | None, symptoms: Symptoms | None, packages: Packages | None) -> Iterator[Finding]:
    said = symptoms.seen("nccl-version-differs") if symptoms else ()
    symbol = symptoms.value("symbol", "nccl-version-differs") if symptoms else None
    told = {name: v for name, v in (nccl.versions.items() if nccl else ()) if not name.startswith("line ")}
    versions = list(dict.fromkeys(told.values()))
    wheels = [p for p in (*(packages.packages.values() if packages else ()), *(packages.duplicates if packages else ())) if "nccl" in p.name]
    conflict = [c for c in (packages.conflicts if packages else ()) if "nccl" in c]
    if symptoms and symptoms.has("nccl-interface-set") and len(versions) < 2 and not symbol and not conflict:
        return  # an interface that does not exist gives the same garbled address
    shown = {h.groups["v"]: h for h in symptoms.seen("nccl-version-told")} if symptoms and symptoms.has("nccl-unhandled", "nccl-connect", "stands-still") else {}
    if not said and len(versions) < 2 and not conflict and len(shown) > 1:
        yield Finding(
            fixes=(Fix("nccl-versions"),), certainty=Certainty.LIKELY, values={"versions": list(shown), "symbol": "?"},
            refs=tuple(h.ref for h in shown.values())[:6],
        )
        return
    if not said and len(versions) < 2 and not conflict:
        return
    found = [f"{p.name} {p.version}" for p in wheels]
    yield Finding(
            fixes=(Fix("nccl-versions"),),
        certainty=Certainty.CERTAIN if (said and symbol) or len(versions) > 1 else Certainty.LIKELY,
        variant="symbol" if symbol else "",
        values={"versions": [f"{h}: {v}" for h, v in told.items()][:6] or found or "see the lines", "symbol": symbol or "?"},
        refs=(
            *(hit.ref for hit in said[:3]), *(nccl.version_lines[:4] if nccl and len(versions) > 1 else ()),
            *(p.ref for p in wheels if p.ref), *(symptoms.cite("nccl-wheel", most=8) if symptoms else ()),
            *(symptoms.cite("nccl-so-file", most=4) if symptoms else ()),
        ),
    )


RULE = Rule(
    slug="nccl-version-mismatch",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("nccl-timeout",),
    see=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html", "https://github.com/NVIDIA/nccl/issues/1267",),
    en=Text(
        title="The ranks do not run the same NCCL release ({versions})",
        why="Ranks of different NCCL releases do not understand each other's bootstrap messages: strange address families, truncated messages, hangs. It comes from different wheels or a system libnccl on one of the nodes.",
        fix="Install one NCCL release on all nodes (the nvidia-nccl-cu12 that torch asks for: pip install --force-reinstall the same torch), remove a second one (nvidia-nccl-cu11, libnccl2), and compare python -c 'import torch; print(torch.cuda.nccl.version())' on every node.",
    ),
    zh=Text(
        title="各 rank 的 NCCL 版本不一致（{versions}）",
        why="不同版本的 NCCL 无法理解对方的引导消息：出现奇怪的地址族、消息被截断、卡住。原因是某个节点的 wheel 不同或用了系统的 libnccl。",
        fix="所有节点安装同一 NCCL 版本（torch 要求的 nvidia-nccl-cu12：用 pip install --force-reinstall 重装同一 torch），删除多余的（nvidia-nccl-cu11、libnccl2），并在每个节点比对 python -c 'import torch; print(torch.cuda.nccl.version())'。",
    ),
    variants={
        "symbol": (
            Text(
                title="Another NCCL than this PyTorch was built for is loaded: {symbol} is missing in it",
                why="PyTorch's CUDA library asks for {symbol}, which the libnccl.so.2 that the loader found does not have: an older wheel (nvidia-nccl-cu12) or a system library ahead on LD_LIBRARY_PATH.",
                fix="Reinstall the nvidia-nccl wheel that torch requires (pip install --force-reinstall --no-deps nvidia-nccl-cu12==the version in pip show torch), and unset LD_LIBRARY_PATH or LD_PRELOAD entries with another libnccl.",
            ),
            Text(
                title="加载的 NCCL 与 PyTorch 构建所用的不同：缺少 {symbol}",
                why="PyTorch 的 CUDA 库需要 {symbol}，而加载到的 libnccl.so.2 没有：是较旧的 wheel（nvidia-nccl-cu12），或 LD_LIBRARY_PATH 中排在前面的系统库。",
                fix="重装 torch 要求的 nvidia-nccl wheel（pip install --force-reinstall --no-deps nvidia-nccl-cu12==pip show torch 所示版本），并去掉 LD_LIBRARY_PATH 或 LD_PRELOAD 中的其他 libnccl。",
            ),
        ),
    },
)
