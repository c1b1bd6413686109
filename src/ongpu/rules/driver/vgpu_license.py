"""A vGPU without a licence: slowed down, then refused."""

from collections.abc import Iterator

from ongpu.facts.driver import Services
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

PROFILE = lazy(r"\b(?:(?:GRID|NVIDIA) )?[A-Z]+\d+\w*-(?:\d+-)?\d+[ABCQ]\b")


def check(symptoms: Symptoms | None, gpus: Gpus | None, services: Services | None) -> Iterator[Finding]:
    said = symptoms.cite("vgpu-unlicensed") if symptoms else ()
    states = [g for g in gpus.gpus if g.license] if gpus else []
    bad = [g for g in states if not (g.license or "").lower().startswith("licensed")]
    licensed = bool(symptoms and symptoms.has("vgpu-licensed")) or (bool(states) and not bad)
    names = [n for n in gpus.all_names() if PROFILE.search(n)] if gpus else []
    told = bool(symptoms and symptoms.has("vgpu-told")) or bool(names)
    busy = bool(symptoms and symptoms.has("devices-busy-46"))
    gridd = services.states.get("nvidia-gridd") if services else None
    if licensed and not said:
        return
    if bad or said:
        certainty = Certainty.CERTAIN
    elif (told and symptoms and symptoms.has("machine-slow-told", "speed-falls") and symptoms.has("twenty-minutes-told")) or (told and gridd in ("inactive", "failed", "missing")) or (told and busy):
        certainty = Certainty.LIKELY
    else:
        return
    state = (bad[0].license if bad else None) or ("Unlicensed" if any("nlicensed" in r.quote for r in said) else "no license")
    hard = busy or any("valid grid" in r.quote.lower() or "cuda error" in r.quote.lower() for r in said)
    yield Finding(
        certainty=certainty,
        severity=Severity.ERROR if hard else None,
        values={"state": state, "card": names[0] if names else "vGPU", "gridd": f"nvidia-gridd: {gridd}. " if gridd else ""},
        fixes=(Fix("license-vgpu"),),
        refs=(*said, *(g.ref for g in bad if g.ref), *(symptoms.cite("devices-busy-46", "vgpu-told", "twenty-minutes-told") if symptoms else ()), *(services.about("nvidia-gridd")[:1] if services and gridd else ())),
    )


RULE = Rule(
    slug="vgpu-license",
    layer=Layer.DRIVER,
    severity=Severity.WARNING,
    check=check,
    hides=("exclusive-process-mode", "gpu-busy-other-process", "thermal-throttle", "power-throttle", "workload-too-small"),
    settle=("nvidia-smi -q | grep -i license", "systemctl status nvidia-gridd"),
    see=("https://docs.nvidia.com/vgpu/latest/grid-licensing-user-guide/",),
    en=Text(
        title="{card} has no vGPU license ({state})",
        why="{gridd}Without a license from the license server a vGPU is slowed down after some minutes, and CUDA programs are refused then. nvidia-smi shows no fault but \"License Status\".",
        fix="Give nvidia-gridd what it needs: the client token in /etc/nvidia/ClientConfigToken and FeatureType in /etc/nvidia/gridd.conf (Windows: the registry), a license server that can be reached (port 443), right time; then sudo systemctl restart nvidia-gridd and check nvidia-smi -q | grep License. The guest needs the GRID driver; the ordinary driver has no gridd.",
    ),
    zh=Text(
        title="{card} 没有 vGPU 许可（{state}）",
        why="{gridd}没有从许可服务器取得许可的 vGPU，几分钟后会被降速，随后拒绝 CUDA 程序。nvidia-smi 除 “License Status” 外看不出任何异常。",
        fix="为 nvidia-gridd 配好所需：/etc/nvidia/ClientConfigToken 中的客户端令牌、/etc/nvidia/gridd.conf 中的 FeatureType（Windows 在注册表）、可达的许可服务器（443 端口）和正确的系统时间；然后 sudo systemctl restart nvidia-gridd，用 nvidia-smi -q | grep License 检查。虚拟机内必须装 GRID 驱动，普通驱动没有 gridd。",
    ),
)
