"""The card's PCIe link is narrower or slower than card and slot allow, under load; or it loses packets."""

from collections.abc import Iterator

from ongpu.facts.hardware import Gpu, Gpus, Pci, PeerBandwidth
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge.gpus import model
from ongpu.knowledge.median import median
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

REPLAYS = 1000  # replays since reset that a sound link does not collect


def check(symptoms: Symptoms | None, gpus: Gpus | None, pci: Pci | None, peers: PeerBandwidth | None) -> Iterator[Finding]:
    found = False
    for index, mine, others in _slow_peers(peers):
        found = True
        yield _finding(f"GPU {index}", f"{mine:.1f} GB/s", f"{others:.1f} GB/s", Certainty.LIKELY, peers.refs if peers else (), "peers")
    for gpu in gpus.gpus if gpus else ():
        for finding in _gpu(gpu, gpus.refs if gpus else ()):
            found = True
            yield finding
    idle = bool(gpus and any(_idle(gpu) for gpu in gpus.gpus))
    for device in pci.devices if pci and not found else ():
        if not (device.nvidia or device.bus == "?" or device.kind is None) or not device.width:
            continue
        if device.width_max and device.width < device.width_max and device.width > 0:
            found = True
            yield _finding(
                device.bus, f"x{device.width}", f"x{device.width_max}", Certainty.POSSIBLE if idle else Certainty.LIKELY,
                (device.ref,) if device.ref else (),
            )  # fmt: skip
        elif device.speed and device.speed_max and device.speed < device.speed_max and (at_work := _at_work(gpus, device.bus)):
            found = True
            yield _finding(
                device.bus, f"{device.speed:g}GT/s", f"{device.speed_max:g}GT/s", Certainty.LIKELY,
                (*((device.ref,) if device.ref else ()), *((at_work.ref,) if at_work.ref else ())), "speed",
            )  # fmt: skip
    if not symptoms or found:
        return
    narrow = symptoms.seen("link-width-downgraded")
    if narrow and not (pci and any(d.width for d in pci.devices if d.width_max)):
        width = narrow[0].groups["width"]
        yield _finding("", f"x{width}", "x16", Certainty.POSSIBLE if idle else Certainty.LIKELY, (narrow[0].ref,))
        return
    errors = symptoms.seen("aer-errors")
    reports = [hit for hit in errors if hit.groups.get("severity")]
    single = len(reports) <= 1 and all(hit.groups["severity"].lower().startswith("correct") for hit in reports)
    few = single and len(errors) <= 3 and not symptoms.has("told-riser", "machine-slow-told", "slow-words", "slower-over-time")
    if few and not any("multiple" in hit.ref.quote.lower() or "uncorrect" in hit.ref.quote.lower() for hit in errors):
        errors = ()  # one corrected error is how the link is meant to cope
    if errors:
        refs = symptoms.cite("aer-errors", "told-riser")
        sure = Certainty.LIKELY if len(errors) > 1 or symptoms.has("told-riser") else Certainty.POSSIBLE
        yield _finding("", "?", "?", sure, refs, "errors")
        return
    limited = symptoms.seen("link-limited")
    for hit in limited[:1]:
        if int(hit.groups["width"]) < int(hit.groups["width_max"]):
            yield _finding(
                hit.groups["at"], f"x{hit.groups['width']} {hit.groups['speed']} GT/s",
                f"x{hit.groups['width_max']} {hit.groups['speed_max']} GT/s", Certainty.POSSIBLE, (hit.ref,),
            )  # fmt: skip
            return
    if symptoms.has("narrow-link-told") and not symptoms.has("told-narrow-link"):
        width = next((v for k in ("width", "width2", "width3", "width4", "width5", "width6") if (v := symptoms.value(k, "narrow-link-told"))), "?")
        yield _finding("", width.replace("\u0445", "x"), "x16", Certainty.LIKELY, symptoms.cite("narrow-link-told", "machine-slow-told", most=2))
        return
    if symptoms.has("told-narrow-link"):
        yield _finding(
            "", "?", "?", Certainty.LIKELY, symptoms.cite("told-narrow-link", "host-to-device-bandwidth"), "told"
        )
        return
    for hit in symptoms.seen("host-to-device-bandwidth"):
        rate = float(hit.groups["gbs"])
        rate = rate / 1000 if "MB" in hit.groups.get("unit", "") or rate > 200 else rate
        if rate < 3.0:
            yield _finding("", f"{rate:.1f} GB/s", "6 to 50 GB/s", Certainty.LIKELY, (hit.ref,), "bandwidth")
            return


def _slow_peers(peers: PeerBandwidth | None) -> Iterator[tuple[int, float, float]]:
    """(card, its bandwidth, the others') of cards that are slow with every peer while the others are fast among themselves."""
    rows = peers.rows if peers else ()
    if len(rows) < 3:
        return
    middle = [median([cell for at, cell in enumerate(row) if at != number]) for number, row in enumerate(rows)]
    for number, mine in enumerate(middle):
        rest = [value for at, value in enumerate(middle) if at != number]
        if mine < 0.5 * median(rest):
            yield number, mine, median(rest)


def _idle(gpu: Gpu) -> bool:
    return gpu.pstate in ("P8", "P12", "P5") or (gpu.utilization == 0 and gpu.pstate not in ("P0", "P1", "P2"))


def _at_work(gpus: Gpus | None, bus: str) -> Gpu | None:
    """The card in that slot, where it was at work when it was shown: only then does its link speed mean something."""
    cards = gpus.gpus if gpus else ()
    card = next((g for g in cards if g.bus and bus != "?" and g.bus.lower().endswith(bus[-7:])), None)
    if card is None and len(cards) == 1 and (bus == "?" or not cards[0].bus):
        card = cards[0]
    return card if card and (card.utilization or 0) >= 50 and card.pstate in ("P0", "P1", "P2", "P3", None) else None


def _gpu(gpu: Gpu, lines: tuple[Ref, ...]) -> Iterator[Finding]:
    known = model(gpu.name) if gpu.name else None
    lanes = gpu.pcie_width_max or (known.pcie[1] if known and known.pcie else None)
    busy = (gpu.utilization or 0) >= 20 or gpu.pstate in ("P0", "P1", "P2", "P3")
    refs = tuple(ref for ref in lines if ref.about.startswith("pcie_") or ref.about in ("pstate", "utilization"))
    refs = (*((gpu.ref,) if gpu.ref else ()), *refs)
    if gpu.pcie_replays and gpu.pcie_replays >= REPLAYS:
        yield _finding(gpu.label, f"{gpu.pcie_replays} replays", "0", Certainty.LIKELY, refs, "replays")
    if _idle(gpu):
        return  # an idle card lowers its link: normal
    if gpu.pcie_width and lanes and gpu.pcie_width < lanes:
        certainty = Certainty.LIKELY if busy else Certainty.POSSIBLE
        yield _finding(gpu.label, f"x{gpu.pcie_width}", f"x{lanes}", certainty, refs)
    elif gpu.pcie_gen and gpu.pcie_gen_max and gpu.pcie_gen < gpu.pcie_gen_max and (gpu.utilization or 0) >= 20:
        yield _finding(gpu.label, f"Gen{gpu.pcie_gen}", f"Gen{gpu.pcie_gen_max}", Certainty.LIKELY, refs)


def _finding(where: str, have: str, could: str, certainty: Certainty, refs, variant: str = "") -> Finding:  # type: ignore[no-untyped-def]
    return Finding(
        subject=where, certainty=certainty, variant=variant, values={"where": where or "the GPU", "have": have, "could": could},
        fixes=(Fix("look-at-link"), Fix("look-at-the-bus")), refs=refs,
    )  # fmt: skip


_FIX_EN = (
    "Measure under load: `nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv -l 1` while a job runs "
    "(at idle a lower speed is normal). Seat the card anew, clean the contacts, use the x16 slot wired to the CPU, take the riser "
    "out, look in the BIOS for slot bifurcation and a fixed PCIe generation (on a poor riser force Gen3 or Gen2)."
)
_FIX_ZH = (
    "在负载下测量：任务运行时执行 `nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv -l 1`"
    "（空闲时降速属正常）。重新插紧显卡、清洁金手指，使用直连 CPU 的 x16 插槽，去掉延长线（riser），检查 BIOS 的通道拆分与 PCIe 代数设置"
    "（延长线质量差时强制 Gen3 或 Gen2）。"
)

RULE = Rule(
    slug="pcie-link-degraded",
    layer=Layer.HARDWARE,
    severity=Severity.WARNING,
    check=check,
    hides=("input-pipeline-bound",),
    settle=("nvidia-smi -q -d PERFORMANCE,CLOCK", "sudo lspci -vv -d 10de: | grep -E 'LnkCap|LnkSta'"),
    see=("https://docs.nvidia.com/deploy/nvidia-smi/", "https://docs.kernel.org/PCI/pcieaer-howto.html"),
    en=Text(
        title="The PCIe link {where:of * }runs at {have} though {could} is possible",
        why="Copies between host and GPU, and between GPUs, go at the speed of this link: a quarter of the lanes is a quarter of the "
        "bandwidth. Loading data and multi-GPU training suffer; pure computation does not.",
        fix=_FIX_EN,
    ),
    zh=Text(
        title="{where:* 的 }PCIe 链路只有 {have}，而可达 {could}",
        why="主机与 GPU、GPU 之间的拷贝都受此链路限制：通道只有四分之一，带宽就只有四分之一。数据加载与多卡训练受影响，纯计算不受影响。",
        fix=_FIX_ZH,
    ),
    variants={
        "speed": (
            Text(
                title="The PCIe link {where:of * }runs at {have} while the card is at work, though {could} is possible",
                why="At idle a card lowers its link, under load it must rise. One that stays low was trained down (a poor riser, a BIOS setting), or a setting holds it there: "
                "Hardware Autonomous Speed Disable, ASPM, a fixed target speed. Copies and multi-GPU traffic go at that speed; utilisation may show 100 % all the same.",
                fix="Look at LnkCtl2 (Target Link Speed, Hardware Autonomous Speed Disable) of the card and of the port above it with sudo lspci -vvv; set the speed free or to the "
                "highest (setpci, Link Control 2), retrain the link or reset the card, and measure under load. " + _FIX_EN,
            ),
            Text(
                title="{where:* 的 }PCIe 链路在显卡工作时只有 {have}，而可达 {could}",
                why="空闲时显卡会降低链路速度，有负载时应当升上去。一直低说明协商降速（延长线差、BIOS 设置），或被某项设置锁住：Hardware Autonomous Speed Disable、ASPM、固定的目标速度。"
                "拷贝与多卡通信都按这个速度进行；占用率却仍可能显示 100 %。",
                fix="用 sudo lspci -vvv 查看该卡及其上级端口的 LnkCtl2（Target Link Speed、Hardware Autonomous Speed Disable）；放开限制或设为最高速度（setpci，Link Control 2），"
                "重新训练链路或复位显卡，并在负载下测量。" + _FIX_ZH,
            ),
        ),
        "errors": (
            Text(
                title="The PCIe link of {where} loses packets (AER errors on its port)",
                why="Corrected errors (RxErr, BadTLP, BadDLLP, replay timeouts) are repeated until they get through: the link is slow, and "
                "when it gets worse the GPU falls off the bus (Xid 79).",
                fix="Seat card and riser anew or change the riser or cable; cap the slot at a lower PCIe generation (Gen3) in the BIOS; "
                "pcie_aspm=off as a kernel argument if errors come at idle. pci=noaer only hides the messages.",
            ),
            Text(
                title="{where:* 的 }PCIe 链路丢包（端口报 AER 错误）",
                why="可纠正错误（RxErr、BadTLP、BadDLLP、重放超时）会反复重传：链路变慢；恶化后 GPU 会掉线（Xid 79）。",
                fix="重新插紧显卡与延长线（riser）或更换线缆；在 BIOS 把插槽降到较低代数（Gen3）；若空闲时报错，加内核参数 pcie_aspm=off。"
                "pci=noaer 只是隐藏信息。",
            ),
        ),
        "replays": (
            Text(
                title="The PCIe link of {where} has counted {have}: it loses packets",
                why="Each replay is a packet sent again because it arrived damaged. A sound link counts next to none.",
                fix=_FIX_EN,
            ),
            Text(
                title="{where:* 的 }PCIe 链路计数为 {have}：有丢包",
                why="每次重放（replay）都是报文损坏后的重传，正常链路几乎为零。",
                fix=_FIX_ZH,
            ),
        ),
        "told": (
            Text(
                title="The PCIe link of {where} is narrower or slower than the card can do",
                why="A slot wired with fewer lanes, a mining riser (x1), or a link that trained down limits every copy to and from the GPU.",
                fix=_FIX_EN,
            ),
            Text(
                title="{where:* 的 }PCIe 链路比显卡能力更窄或更慢",
                why="插槽通道少、矿用 x1 延长线或链路降速，都会限制与 GPU 之间的每次拷贝。",
                fix=_FIX_ZH,
            ),
        ),
        "peers": (
            Text(
                title="{where} exchanges data with every other GPU at only {have}; the others reach {could}",
                why="One card that is slow with all its peers, while they are fast with each other, sits behind a narrow link: its own slot, riser or cable.",
                fix=_FIX_EN + " See LnkSta against LnkCap of this card with lspci -vv under load.",
            ),
            Text(
                title="{where} 与其他每张 GPU 之间都只有 {have}，而其他卡之间达到 {could}",
                why="一张卡对所有对端都慢，其他卡彼此却快，说明瓶颈是它自己的链路：插槽、延长线（riser）或线缆。",
                fix=_FIX_ZH + "在负载下用 lspci -vv 对比这张卡的 LnkSta 与 LnkCap。",
            ),
        ),
        "bandwidth": (
            Text(
                title="Copies from host to GPU reach only {have} (a x16 slot gives {could}, by generation)",
                why="So low a rate for pinned memory is what a x1 to x4 or Gen1 link gives.",
                fix=_FIX_EN,
            ),
            Text(
                title="主机到 GPU 的拷贝只有 {have}（x16 插槽按代数应为 {could}）",
                why="锁页内存拷贝这么慢，符合 x1 至 x4 或 Gen1 链路的表现。",
                fix=_FIX_ZH,
            ),
        ),
    },
)
