"""The clocks are held down by a power limit, a power brake, or a broken power reading."""

from collections.abc import Iterator, Mapping

from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Gpu, Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge.gpus import model
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

LOW_CLOCK = 0.6  # of the maximum: a card at its own limit under full load stays above this
BELOW = 0.8  # of its own limit: a card that is capped there is held by something else
LOW_LIMIT = 0.85  # of the default limit: somebody, or the laptop's firmware, has lowered it


def check(symptoms: Symptoms | None, gpus: Gpus | None, driver: Driver | None) -> Iterator[Finding]:
    found = False
    for gpu in gpus.gpus if gpus else ():
        for finding in _gpu(gpu, gpus, driver):
            found = True
            yield finding
    if found or not symptoms or any(g.throttle is not None for g in (gpus.gpus if gpus else ())):
        return
    said = symptoms.cite("power-said")
    slowed = symptoms.cite("machine-slow-told", "speed-falls", most=2)
    battery, stuck, lowered = symptoms.cite("battery-told", most=2), symptoms.cite("clock-stuck-told", most=2), symptoms.cite("power-limit-set-told", most=2)
    hot = symptoms.has("hot-figure")
    if (battery and (slowed or stuck)) or (lowered and slowed) or (stuck and not hot and symptoms.has("gpu-load-told", "busy-told")):
        watts = symptoms.value("watts", "power-limit-set-told") or symptoms.value("watts2", "power-limit-set-told")
        clock = symptoms.value("mhz", "clock-stuck-told") or symptoms.value("mhz2", "clock-stuck-told")
        yield Finding(
            certainty=Certainty.LIKELY, variant="told", fixes=(Fix("look-at-clocks"),), refs=(*battery, *stuck, *lowered, *slowed, *said),
            values={"how": f" ({watts} W)" if watts else f" ({clock} MHz)" if clock else ""},
        )  # fmt: skip
        return
    if said:
        slow = symptoms.has("slower-over-time") or any(
            w in r.quote.lower() for r in said for w in ("brake", "stuck", "too low", "battery")
        )
        yield Finding(
            certainty=Certainty.LIKELY if slow else Certainty.POSSIBLE, severity=None if slow else Severity.NOTE,
            variant="told", fixes=(Fix("look-at-clocks"),), refs=said, values={"how": ""},
        )  # fmt: skip


def _gpu(gpu: Gpu, gpus: Gpus | None, driver: Driver | None) -> Iterator[Finding]:
    reasons = gpu.throttle or ()
    draw, limit, default = gpu.power_draw, gpu.power_limit, gpu.power_default
    values = {
        "gpu": gpu.label, "draw": _w(draw), "limit": _w(limit), "default": _w(default), "index": gpu.index,
        "clock": gpu.clock_sm or "?", "clock_max": gpu.clock_sm_max or "?",
        "reasons": [r for r in reasons if "Power" in r or r == "HW Slowdown"] or ["-"],
    }  # fmt: skip
    refs = _lines(gpus, gpu)
    slowest = bool(gpu.clock_sm and (gpu.clock_sm < 420 or (gpu.clock_sm_max and gpu.clock_sm < 0.3 * gpu.clock_sm_max)))
    known = model(gpu.name) if gpu.name else None
    if not reasons and slowest and (gpu.utilization or 0) >= 50 and (gpu.temperature or 0) < 80:
        yield _finding(gpu, Certainty.LIKELY, "clocks", values, refs)
    elif (
        not reasons and draw and limit and not default and draw >= 0.9 * limit and (gpu.utilization or 0) >= 80
        and known and known.power_w and limit < 0.5 * known.power_w
    ):  # fmt: skip
        yield _finding(gpu, Certainty.LIKELY, "lowered", {**values, "default": known.power_w}, refs)
    elif draw and limit and draw > 2 * limit and draw > limit + 50:
        yield _finding(
            gpu,
            Certainty.CERTAIN if "SW Power Cap" in reasons else Certainty.LIKELY,
            "reading",
            values,
            (*refs, *(driver.about("version")[:1] if driver else ())),
        )
    elif "HW Power Brake Slowdown" in reasons:
        yield _finding(gpu, Certainty.CERTAIN, "brake", values, refs)
    elif "SW Power Cap" in reasons or (draw and limit and draw >= 0.95 * limit and (gpu.utilization or 0) >= 50):
        low = bool(gpu.clock_sm and gpu.clock_sm_max and gpu.clock_sm < LOW_CLOCK * gpu.clock_sm_max)
        lowered = bool(limit and default and limit < LOW_LIMIT * default)
        below = bool(draw and limit and draw < BELOW * limit and gpu.pstate not in ("P8", "P12"))
        if "SW Power Cap" in reasons and below and not low and "Idle" not in reasons:
            yield _finding(gpu, Certainty.LIKELY, "below", values, refs)
        elif "SW Power Cap" in reasons and low and not lowered and "Idle" not in reasons:
            yield _finding(gpu, Certainty.LIKELY, "", values, refs)
        elif lowered:
            yield _finding(gpu, Certainty.LIKELY, "lowered", values, refs)
        elif "SW Power Cap" in reasons and limit and not default and gpu.power_max and limit < LOW_LIMIT * gpu.power_max:
            yield _finding(gpu, Certainty.LIKELY, "under", {**values, "most": _w(gpu.power_max)}, refs)
        elif "SW Power Cap" in reasons:
            yield _finding(gpu, Certainty.POSSIBLE, "normal", values, refs, Severity.NOTE)
    elif "HW Slowdown" in reasons and not any("Thermal" in r for r in reasons):
        yield _finding(gpu, Certainty.LIKELY, "brake", values, refs)


def _w(watts: float | None) -> str:
    return "?" if watts is None else f"{watts:g}"


def _finding(
    gpu: Gpu,
    certainty: Certainty,
    variant: str,
    values: Mapping[str, object],
    refs: tuple[Ref, ...],
    severity: Severity | None = None,
) -> Finding:
    fixes = (Fix("look-at-clocks"), *((Fix("restore-power-limit"),) if variant == "lowered" else ()))
    return Finding(
        subject=gpu.label,
        certainty=certainty,
        variant=variant,
        severity=severity,
        values=values,
        fixes=fixes,
        refs=refs,
    )


def _lines(gpus: Gpus | None, gpu: Gpu) -> tuple[Ref, ...]:
    names = ("throttle", "power_draw", "power_limit", "power_default", "clock_sm", "clock_sm_max")
    return (*(ref for ref in (gpus.refs if gpus else ()) if ref.about in names), *((gpu.ref,) if gpu.ref else ()))


RULE = Rule(
    slug="power-throttle",
    layer=Layer.HARDWARE,
    severity=Severity.WARNING,
    check=check,
    hides=("input-pipeline-bound", "workload-too-small"),
    settle=("nvidia-smi -q -d POWER,CLOCK,PERFORMANCE",),
    see=("https://docs.nvidia.com/deploy/nvidia-smi/", "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1237"),
    en=Text(
        title="{gpu}: SW Power Cap holds the SM clock at {clock} of {clock_max} MHz ({draw} W{limit: of * W})",
        why="The driver keeps the card below its power limit. At full load near the limit that is normal; clocks this far down mean that "
        "the limit is too low for the work, or that the laptop's firmware, battery operation or power supply lowers it.",
        fix="Look at nvidia-smi -q -d POWER (current, default and maximum limit). Raise it with sudo nvidia-smi -pl WATTS up to the maximum; "
        "laptop: plug in the original power supply, choose the performance profile, run the nvidia-powerd service (Dynamic Boost).",
    ),
    zh=Text(
        title="{gpu}：SW Power Cap 把 SM 频率压在 {clock}/{clock_max} MHz（{draw} W，上限 {limit} W）",
        why="驱动在把功耗控制在上限以内。满载贴近上限属正常；频率低到这个程度，说明上限对负载太低，或被笔记本固件、电池供电、电源适配器压低。",
        fix="查看 nvidia-smi -q -d POWER（当前、默认、最大上限）。用 sudo nvidia-smi -pl 瓦数 调高，不超过最大值；笔记本：接原装电源、选性能模式、"
        "运行 nvidia-powerd 服务（Dynamic Boost）。",
    ),
    variants={
        "reading": (
            Text(
                title="{gpu} reports {draw} W with a limit of {limit} W: the reading is impossible, and SW Power Cap holds the clocks at {clock} MHz",
                why="No card draws a multiple of its limit. The power telemetry is broken (driver, kernel or firmware update), and the driver, "
                "believing it, keeps the clocks at the bottom even when idle.",
                fix="Boot the kernel or linux-firmware version from before the update, or change the driver branch; cold boot (power off, unplug) "
                "once. Report it to NVIDIA with nvidia-bug-report.sh. Cleaning or a new power supply cannot help.",
            ),
            Text(
                title="{gpu} 报告 {draw} W，而上限为 {limit} W：读数不可能正确，SW Power Cap 因此把频率压在 {clock} MHz",
                why="没有显卡会达到上限的数倍。功耗遥测坏了（驱动、内核或固件更新所致），驱动信以为真，空闲时也把频率压到最低。",
                fix="启动更新前的内核或 linux-firmware 版本，或换驱动分支；彻底断电冷启动一次。用 nvidia-bug-report.sh 向 NVIDIA 报告。"
                "清灰或换电源没有用。",
            ),
        ),
        "below": (
            Text(
                title="{gpu}: SW Power Cap is active at {draw} W though its own limit is {limit} W",
                why="The card is capped well below its own limit, so something else sets the cap: the server's power management (BMC, "
                "iDRAC, iLO), a power supply too small for all cards, or a power cable on one lead instead of two.",
                fix="Check the power supplies and their feeds, the power cap and thermal table of the BMC (iDRAC, iLO), and the card's "
                "power cables; then look again with nvidia-smi -q -d POWER,PERFORMANCE under load.",
            ),
            Text(
                title="{gpu}：功耗仅 {draw} W 时 SW Power Cap 就已激活，而自身上限是 {limit} W",
                why="显卡在远低于自身上限处被封顶，说明另有限制：服务器电源管理（BMC、iDRAC、iLO）、电源功率不足，或供电线少接了一路。",
                fix="检查电源及其输入、BMC（iDRAC、iLO）的功率封顶与散热策略、显卡供电线；再在负载下用 nvidia-smi -q -d POWER,PERFORMANCE 复查。",
            ),
        ),
        "brake": (
            Text(
                title="{gpu}: the hardware holds the clocks down ({reasons}): an external power brake or an overload signal",
                why="HW Power Brake Slowdown comes from outside the card: the server's power supply or chassis asserts the signal (redundancy lost, "
                "budget exceeded). HW Slowdown alone is the brake, or the card's own over-current or temperature protection.",
                fix="Check the server's power supplies, their redundancy and the power cap in the BMC (ipmitool sdr, iDRAC, iLO); check the card's "
                "power cables. nvidia-smi -q -d PERFORMANCE shows whether the reason goes away.",
            ),
            Text(
                title="{gpu}：硬件压低频率（{reasons}）：外部功率制动或过载信号",
                why="HW Power Brake Slowdown 来自卡外：服务器电源或机箱发出信号（冗余丢失、超出功率预算）。只有 HW Slowdown 时，可能是制动信号，"
                "也可能是显卡自身的过流或过温保护。",
                fix="检查服务器电源、冗余以及 BMC 的功率封顶（ipmitool sdr、iDRAC、iLO），检查显卡供电线。用 nvidia-smi -q -d PERFORMANCE 看原因是否消失。",
            ),
        ),
        "under": (
            Text(
                title="{gpu} is held at {limit} W, where up to {most} W is allowed",
                why="SW Power Cap is active at a limit below the card's maximum. In laptops the firmware sets it, and the rest up to the maximum is given by Dynamic Boost.",
                fix="Laptop: plug the charger in, choose the performance profile, and enable Dynamic Boost: sudo systemctl enable --now nvidia-powerd (nvidia-smi -pl is not "
                "supported there). Desktop or server: sudo nvidia-smi -i {index} -pl {most}.",
            ),
            Text(
                title="{gpu} 被限制在 {limit} W，而最高允许 {most} W",
                why="SW Power Cap 已激活，且当前上限低于显卡的最大值。笔记本由固件设定，余下部分由 Dynamic Boost 分配。",
                fix="笔记本：接上电源，选性能模式，启用 Dynamic Boost：sudo systemctl enable --now nvidia-powerd（笔记本不支持 nvidia-smi -pl）。台式机或服务器："
                "sudo nvidia-smi -i {index} -pl {most}。",
            ),
        ),
        "lowered": (
            Text(
                title="{gpu}: its power limit is set to {limit} W, the default is {default} W",
                why="Somebody lowered the limit (nvidia-smi -pl, a tuning tool, the cloud's host or a laptop's profile), and the card now works at it.",
                fix="If it is not meant so: sudo nvidia-smi -i {index} -pl {default}.",
            ),
            Text(
                title="{gpu}：功耗上限被设为 {limit} W，默认为 {default} W",
                why="有人调低了上限（nvidia-smi -pl、调校工具、云主机或笔记本模式），显卡正顶着它工作。",
                fix="若非有意：sudo nvidia-smi -i {index} -pl {default}。",
            ),
        ),
        "normal": (
            Text(
                title="{gpu} works at its power limit ({draw} W{limit: of * W}): normal under full load",
                why="SW Power Cap is active whenever the work would take more than the limit.",
                fix="Nothing.",
            ),
            Text(
                title="{gpu} 正在功耗上限工作（{draw} W{limit: / * W}）：满载时属正常",
                why="只要负载所需超过上限，SW Power Cap 就会激活。",
                fix="无需处理。",
            ),
        ),
        "clocks": (
            Text(
                title="{gpu} is busy at only {clock} MHz (up to {clock_max} MHz was seen), though it is cool: held in a low performance state",
                why="On battery, or when the firmware or power supply limits the card, the driver pins the lowest clocks: high utilisation, little power ({draw} W), "
                "slow work.",
                fix="Plug the laptop's charger in and choose the performance profile (BIOS, nvidia-powerd, PowerMizer: prefer maximum performance); on a desktop or server "
                "check power cables and supply; then look at nvidia-smi -q -d PERFORMANCE,CLOCK under load.",
            ),
            Text(
                title="{gpu} 满载却只有 {clock} MHz（最高见到 {clock_max} MHz），温度并不高：被压在低性能状态",
                why="用电池供电，或固件、电源限制显卡时，驱动会锁在最低频率：占用率高、功耗低（{draw} W）、速度慢。",
                fix="笔记本接上电源并选性能模式（BIOS、nvidia-powerd、PowerMizer 最高性能）；台式机和服务器检查供电线与电源；再在负载下看 "
                "nvidia-smi -q -d PERFORMANCE,CLOCK。",
            ),
        ),
        "told": (
            Text(
                title="The GPU is held down by a power limit{how}",
                why="A power cap, battery operation or a power brake lowers the clocks; nvidia-smi shows which.",
                fix="Look at nvidia-smi -q -d POWER,CLOCK,PERFORMANCE. Raise the limit (sudo nvidia-smi -pl WATTS), plug the laptop in and choose the "
                "performance profile, run nvidia-powerd; on a server check the power supplies and the BMC's power cap.",
            ),
            Text(
                title="GPU 被功耗限制压低{how}",
                why="功耗封顶、电池供电或功率制动都会降低频率，nvidia-smi 可以看出是哪一种。",
                fix="查看 nvidia-smi -q -d POWER,CLOCK,PERFORMANCE。调高上限（sudo nvidia-smi -pl 瓦数），笔记本接电源并选性能模式、运行 nvidia-powerd；"
                "服务器检查电源与 BMC 的功率封顶。",
            ),
        ),
    },
)
