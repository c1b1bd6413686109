"""The card's auxiliary power is not connected."""

from collections.abc import Iterator

from ongpu.facts.hardware import Gpus, Xids
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, xids: Xids | None, gpus: Gpus | None) -> Iterator[Finding]:
    events = xids.of(54) if xids else ()
    said = symptoms.cite("power-cable") if symptoms else ()
    code = symptoms.cite("rm-power-code") if symptoms else ()
    plug = symptoms.cite("power-plug-told") if symptoms and symptoms.has("hw-driver-silent", "gpu-vanishes-told", "gpu-missing-told", "smi-no-communication") else ()
    if not (events or said or code or plug):
        return
    names = gpus.all_names() if gpus else ()
    old_tesla = any(word in name for name in names for word in ("M40", "P40", "K80", "M60", "P100", "V100", "T40"))
    bus = next((e.bus for e in events if e.bus), "")
    yield Finding(
        subject=bus,
        certainty=Certainty.CERTAIN if events or said else Certainty.LIKELY if plug else Certainty.POSSIBLE,
        values={
            "card": ", ".join(names[:1]) or bus or "the card",
            "plug": "EPS-12V (CPU)" if old_tesla else "PCIe / 12VHPWR / EPS",
        },
        fixes=(Fix("power-cycle"),),
        refs=(*(e.ref for e in events), *said, *plug, *code, *(symptoms.cite("hw-no-devices", most=1) if symptoms else ())),
    )


RULE = Rule(
    slug="power-cable-missing",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=(
        "gpu-answers-with-error",
        "gpu-fell-off-bus",
        "gpu-not-on-bus",
        "no-nvidia-gpu",
        "bar-allocation-failed",
        "driver-module-not-loaded",
        "device-node-missing",
        "driver-not-installed",
        "cuda-unavailable",
    ),
    settle=("sudo dmesg | grep -iE 'power cable|xid'",),
    see=("https://docs.nvidia.com/deploy/xid-errors/", "https://forums.developer.nvidia.com/c/gpu-graphics/linux/148"),
    en=Text(
        title="The power cable of {card} is not connected (or loose): the driver refuses to start the GPU",
        why="The card answers on the bus with the slot's power alone, but the driver saw that its auxiliary power input is open "
        '(Xid 54, "does not have the necessary power cables connected"). So it is in lspci and missing in nvidia-smi.',
        fix="Power off and plug in every auxiliary power connector of the card: {plug}. A Tesla M40, P40, P100 or V100 (PCIe) wants "
        "an 8-pin EPS (CPU) plug, not a PCIe one; a GeForce 40 or 50 its 12VHPWR / 12V-2x6 plug pushed fully in. Check that the "
        "power supply has enough leads, then boot again.",
    ),
    zh=Text(
        title="{card} 的外接供电线（power cable）没接或松动：驱动拒绝启动该 GPU",
        why="仅靠插槽供电，显卡能在总线上被识别，但驱动发现辅助供电没有接通（Xid 54，“does not have the necessary power cables "
        "connected”），所以 lspci 能看到而 nvidia-smi 看不到。",
        fix="关机，把卡上的所有辅助供电口接好：{plug}。Tesla M40、P40、P100、V100（PCIe）要的是 8 针 EPS（CPU）插头而不是 PCIe 插头；"
        "GeForce 40/50 系的 12VHPWR / 12V-2x6 要完全插到底。确认电源有足够的接线，再开机。",
    ),
)
