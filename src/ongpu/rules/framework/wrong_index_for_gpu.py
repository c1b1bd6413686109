"""The build is one of a CUDA line that has no code for this card, though the same release has one that does."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge.card_fit import below, build_name, fit, told, torch_archs, torch_for
from ongpu.knowledge.torch import archs, build_of, release, runs
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

_SAID = (
    "arch-not-compatible",
    "arch-supported",
    "no-kernel-image",
    "kernel-image-missing",
    "arch-too-old",
    "arch-ignored",
)


def check(
    symptoms: Symptoms | None, torch: Torch | None, gpus: Gpus | None, driver: Driver | None, machine: Machine | None
) -> Iterator[Finding]:
    if not torch or not torch.version:
        return
    hits = symptoms.seen(*_SAID) if symptoms else ()
    card, name, built, _ = told(hit.groups for hit in hits)
    cards = gpus.cards() if gpus else ()
    if not card and cards:
        name, card = max(cards, key=lambda pair: tuple(int(n) for n in pair[1].split(".")))
    build = build_of(torch.version) or (build_name(torch.cuda) if torch.cuda else None)
    if not card or not build or not build.startswith("cu"):
        return
    have = built or torch.archs or torch_archs(torch.version, torch.cuda) or ()
    if not have or fit(card, have, torch.cuda) in (None, "fits"):
        return
    found = release(torch.version)
    base = ".".join(torch.version.split("+")[0].split(".")[:3])
    good = [b for b in (found.builds if found else ()) if (code := archs(torch.version, b)) and runs(code, card)]
    nightly = ".dev" in torch.version or "a0" in torch.version
    if not good and nightly and (like := release(base)):
        good = [b for b in like.builds if (code := archs(base, b)) and runs(code, card)]
    if not good:
        return
    tag = (
        good[0]
        if below(card, "7.5") and len(good) > 1 and card < "7.5"
        else good[-1]
        if not below(card, "7.5")
        else good[0]
    )
    tag = good[0] if good[0] > build else tag
    failed = bool(symptoms and symptoms.has(*_SAID))
    pair = torch_for(card)
    yield Finding(
        subject=name or "",
        certainty=Certainty.CERTAIN if failed else Certainty.LIKELY,
        values={
            "version": torch.version,
            "build": build,
            "card": name or "?",
            "sm": f"sm_{card.replace('.', '')}",
            "capability": card,
            "tag": tag,
            "good": ", ".join(good),
            "pin": "" if nightly else f"=={base}",
            "first": f"{pair[0][0]}+{pair[0][1]}" if pair else "?",
        },
        fixes=(Fix("install-torch-cuda"),),
        refs=(
            *(symptoms.cite(*_SAID) if symptoms else ()),
            *torch.about("version", "cuda", "archs"),
            *(gpus.refs[:2] if gpus else ()),
        ),
    )


RULE = Rule(
    slug="wrong-index-for-gpu",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=("compute-capability-too-new", "compute-capability-too-old"),
    settle=(
        "python -c 'import torch; print(torch.__version__, torch.cuda.get_arch_list())'",
        "nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv",
    ),
    see=(
        "https://pytorch.org/get-started/locally/",
        "https://github.com/pytorch/pytorch/blob/main/RELEASE.md#release-compatibility-matrix",
    ),
    en=Text(
        title="torch {version} is the {build} build, which has no code for {card} ({sm}); the {good} build has",
        why="The wheels of one release differ by CUDA line, and each line carries code for other architectures. {build} leaves out compute capability {capability}; is_available() is True all the same, and the first kernel fails. The local nvcc does not matter.",
        fix="Reinstall from the right index: pip install --force-reinstall torch torchvision torchaudio --index-url https://download.pytorch.org/whl/{tag} (builds with {sm}: {good}; the driver must be new enough for it).",
    ),
    zh=Text(
        title="torch {version} 是 {build} 构建，没有 {card}（{sm}）的代码；{good} 构建才有",
        why="同一版本的 wheel 按 CUDA 系列区分，各系列包含的架构不同。{build} 不含计算能力 {capability}；is_available() 仍为 True，第一个 kernel 就会失败。本机的 nvcc 与此无关。",
        fix="从正确的索引重装：pip install --force-reinstall torch torchvision torchaudio --index-url https://download.pytorch.org/whl/{tag}（含 {sm} 的构建：{good}；驱动也要够新）。",
    ),
)
